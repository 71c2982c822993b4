"""All operator verbs on a store URL, for commands and agents that work without a daemon."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from holdfast.config.config import load_config
from holdfast.home import find_home
from holdfast.ledger.signed_heads import SignedHeads
from holdfast.net.guard import Guard
from holdfast.operations.answers.events import event_json
from holdfast.operations.answers.receipts import AppendedReceipt
from holdfast.operations.context import OperationsContext
from holdfast.operations.verbs import Operations
from holdfast.ports import SystemChance, SystemClock
from holdfast.store.open import open_store
from holdfast.store.roles.owners import Owner
from holdfast.streams.live import LiveViews

T = TypeVar("T")

READ_ONLY_OWNER = Owner(0, "")
"""The owner of verbs that only read: nothing is written in its name."""


def local_actor() -> str:
    """The user of this process, for receipts. A user who can open a store owns it."""
    try:
        return f"local:{getpass.getuser()}"
    except (OSError, KeyError):  # a container may run a user that no file names
        return f"local:{os.getuid()}"


@asynccontextmanager
async def open_operations(url: str, *, write: bool = True, driver: str = "apsw") -> AsyncIterator[Operations]:
    """The verbs on an existing store, which another process may be using. The settings are those of the home folder.

    Without `write` nothing is registered in the store, and only verbs that read may be called.
    """
    async with _open(url, write, driver) as context:
        yield Operations(context)


@asynccontextmanager
async def open_live_operations(
    url: str, driver: str, *, write: bool = False
) -> AsyncIterator[tuple[Operations, LiveViews]]:
    """The verbs, or without `write` those that read, with live views. The caller runs `LiveViews.tick`."""
    async with _open(url, write, driver) as context:
        live = LiveViews(context.store, event_json)
        yield Operations(replace(context, live=live)), live


@asynccontextmanager
async def _open(url: str, write: bool, driver: str) -> AsyncIterator[OperationsContext]:
    home = find_home()
    config = load_config(home.config)
    store = open_store(url, create=False, driver=driver)
    owner = READ_ONLY_OWNER
    try:
        if write:
            owner = await store.owners.register()
        yield OperationsContext(
            store=store,
            owner=owner,
            guard=Guard(config.egress_allow),
            policies=config.policies,
            retention=config.retention,
            clock=SystemClock(),
            chance=SystemChance(),
            fleet=config.fleet,
            archive_folder=config.archive_folder,
            signed_heads=SignedHeads(home.receipts),
            detached=True,
        )
    finally:
        if owner is not READ_ONLY_OWNER:
            await store.owners.retire(owner)
        await store.close()


def call_operations(url: str, call: Callable[[Operations], Awaitable[T]], *, write: bool = False) -> T:
    """Call one verb on a store and wait for its answer, from any thread, whether or not an event loop runs in it."""

    async def run() -> T:
        async with open_operations(url, write=write, driver="sqlite3") as operations:
            return await call(operations)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(run())).result()


def append_receipt(url: str, body: Mapping[str, object]) -> AppendedReceipt:
    """Append a receipt of another system to the shared chain of a store."""
    return call_operations(url, lambda verbs: verbs.receipts.append(body, actor=local_actor()))

"""Operator verbs on a store URL, for commands that work without a daemon."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.config.config import load_store
from holdfast.domain.errors import NotFound
from holdfast.home import find_home, shown_url, store_url
from holdfast.ingress.spool import sync_folder
from holdfast.operations.answers.page import Page
from holdfast.operations.answers.store_files import MigratedStore, RestoredStore, StoreBackup
from holdfast.operations.answers.tokens import CreatedToken, RevokedToken, TokenAnswer
from holdfast.operations.registration import register
from holdfast.operations.restore import restore_file, sync_file
from holdfast.operations.tokens import TokenVerbs
from holdfast.ports import Application, SystemChance, SystemClock
from holdfast.store.open import migrate_store, open_store, print_schema

if TYPE_CHECKING:
    from holdfast.store.roles.store import Store

T = TypeVar("T")


def configured_store() -> str:
    """The store that a daemon of this home would use. The home is created if the store lies in it."""
    home = find_home()
    url = os.environ.get("HOLDFAST_STORE") or load_store(home.config)
    if not url:
        home.make()
    return url or store_url(home)


def migrate(store: str | None, app: Application | None) -> MigratedStore:
    """Create or update the tables, and register the contracts of the application's code."""
    url = store or (configured_store() if app is None else app.url)
    # The compatibility views are created only in the daemon's own database, never in a file of the user.
    own = app is None and (store is None or store == configured_store())
    before, after = migrate_store(url, own=own, driver="apsw" if app is None else "sqlite3")
    registered = [] if app is None else asyncio.run(_register(url, app))
    return MigratedStore(shown_url(url), before, after, registered)


def schema(store: str | None, *, application: bool) -> str:
    """The SQL that `migrate` would run on an empty database."""
    return print_schema(not application, store or configured_store())


def backup(store: str | None, path: Path) -> StoreBackup:
    """Write a complete copy of the store to `path`. Other processes may keep using the store."""
    if not path.parent.is_dir():
        raise NotFound(f"the folder {path.parent} does not exist; create it, or choose another path")
    url = store or configured_store()
    os.umask(0o077)  # the copy holds every payload of the store
    _with_store(url, lambda opened: opened.maintenance.backup(path))
    sync_file(path)
    sync_folder(path.parent)
    return StoreBackup(shown_url(url), str(path), path.stat().st_size)


def restore(store: str | None, path: Path) -> RestoredStore:
    """Replace the store by the backup at `path`. The old file is kept."""
    url = store or configured_store()
    os.umask(0o077)
    kept = restore_file(url, path)
    return RestoredStore(shown_url(url), str(path), None if kept is None else str(kept))


def create_token(store: str | None, name: str, scope: str) -> CreatedToken:
    return _with_tokens(store, lambda tokens: tokens.create(name, scope))


def list_tokens(store: str | None, after: str | None, limit: int) -> Page[TokenAnswer]:
    return _with_tokens(store, lambda tokens: tokens.find(after=after, limit=limit))


def revoke_token(store: str | None, id: str) -> RevokedToken:
    return _with_tokens(store, lambda tokens: tokens.revoke(id))


def _with_store(url: str, work: Callable[[Store], Awaitable[T]]) -> T:
    """Open an existing store, which another process may be using, for one piece of work."""

    async def run() -> T:
        opened = open_store(url, create=False)
        try:
            return await work(opened)
        finally:
            await opened.close()

    return asyncio.run(run())


def _with_tokens(url: str | None, work: Callable[[TokenVerbs], Awaitable[T]]) -> T:
    return _with_store(
        url or configured_store(), lambda opened: work(TokenVerbs(opened.tokens, SystemClock(), SystemChance()))
    )


async def _register(url: str, app: Application) -> list[str]:
    opened = open_store(url, driver="sqlite3", own=False)
    try:
        await register(opened.contracts, app.modules(), app.contracts.all())
    finally:
        await opened.close()
    return [contract.id for contract in app.contracts.all()]

"""The caller's own connection: prepared for the promise, and checked against it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.domain.errors import BadInput, StoreError
from holdfast.store import caller
from holdfast.store.door import run_on, run_on_async
from holdfast.store.drivers import Calls

PREPARE, CHECK = Calls("prepare()", "prepare_async()"), Calls("check()", "check_async()")


def prepare(connection: Any) -> None:
    with _said_plainly():
        run_on(connection, caller.prepare, calls=PREPARE)


async def prepare_async(connection: Any) -> None:
    with _said_plainly():
        await run_on_async(connection, caller.prepare, calls=PREPARE)


def check(connection: Any) -> list[str]:
    return run_on(connection, caller.check, calls=CHECK)


async def check_async(connection: Any) -> list[str]:
    return await run_on_async(connection, caller.check, calls=CHECK)


@contextmanager
def _said_plainly() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        if "a transaction" not in str(error):
            raise
        raise BadInput(
            "prepare() sets what SQLite lets nobody set inside a transaction: call it before a transaction begins; "
            "a connection made with autocommit=False is always in one, so let its autocommit be True for the call"
        ) from error

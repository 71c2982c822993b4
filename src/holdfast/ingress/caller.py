"""Settings of the caller's own SQLite connection: set for durability, and checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.domain.errors import BadInput, StoreError
from holdfast.store import caller
from holdfast.store.door import Tables, run_on, run_on_async
from holdfast.store.drivers import Calls

ANY = Tables("holdfast")  # the settings are those of the connection, whatever the outbox
PREPARE, CHECK = Calls("prepare()", "prepare_async()"), Calls("check()", "check_async()")


def prepare(connection: object) -> None:
    with _transaction_error():
        run_on(connection, ANY, PREPARE, caller.prepare)


async def prepare_async(connection: object) -> None:
    with _transaction_error():
        await run_on_async(connection, ANY, PREPARE, caller.prepare)


def check(connection: object) -> list[str]:
    return run_on(connection, ANY, CHECK, caller.check)


async def check_async(connection: object) -> list[str]:
    return await run_on_async(connection, ANY, CHECK, caller.check)


@contextmanager
def _transaction_error() -> Iterator[None]:
    """Explain SQLite's error for a setting that cannot be changed inside a transaction."""
    try:
        yield
    except StoreError as error:
        if "a transaction" not in str(error):
            raise
        raise BadInput(
            "prepare() changes settings that SQLite does not change inside a transaction: call it before a "
            "transaction begins. A connection made with autocommit=False is always in one; set its autocommit to True "
            "for the call"
        ) from error

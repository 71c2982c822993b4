"""Translate PostgreSQL and driver errors to Holdfast errors. No other module does this."""

from __future__ import annotations

import asyncio

import asyncpg

from holdfast.domain.errors import (
    BadInput,
    HoldfastError,
    StoreBusy,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreMissing,
)
from holdfast.store.door_errors import NO_TABLES, door_error

FAST_PATH_REFUSED = "HF004"
"""SQLSTATE raised by a fast path that cannot handle a case; the caller then takes the general path."""

FAULTS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, asyncio.TimeoutError)
"""Every exception the driver may raise."""

_AGAIN = frozenset({"40001", "40P01", "55P03"})
_LOST = frozenset({"25006", "25P03", "53300", "57P01", "57P02", "57P03", "57P05"})


def is_retryable(error: BaseException) -> bool:
    """Whether the server rolled it back because of another transaction: not committed, so it is safe to retry."""
    return isinstance(error, asyncpg.PostgresError) and (
        error.sqlstate in _AGAIN or (error.sqlstate == "23505" and _table(error) in ("events", "queues", "nodes"))
    )


def is_connection_lost(error: BaseException) -> bool:
    """Whether the connection was lost. A commit in progress may or may not have happened."""
    if isinstance(error, asyncpg.PostgresError):
        return error.sqlstate in _LOST or (error.sqlstate or "").startswith("08")  # 08P01: errors of PgBouncer itself
    return isinstance(error, FAULTS)


def translate(error: BaseException) -> HoldfastError:
    if isinstance(error, HoldfastError):
        return error
    text = str(error) or type(error).__name__
    code = error.sqlstate if isinstance(error, asyncpg.PostgresError) else None
    if (refused := door_error(code, text)) is not None:
        return refused
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return StoreBusy(
            "no server of the store's URL accepts writes now; a standby does so after its promotion; "
            "Holdfast retries, nothing is lost"
        )
    if is_connection_lost(error):
        return StoreBusy(f"the database cannot be reached ({text}); Holdfast retries, nothing is lost")
    if is_retryable(error):
        return StoreBusy(
            "the database rolled this back because of another transaction; Holdfast retries, nothing is lost"
        )
    if code == "53100":
        return StoreFull("the database's disk is full: nothing can be accepted until space is freed")
    if code in ("XX001", "XX002"):
        return StoreFailed(f"the database is damaged ({text}); restore it from your pg_dump or base backup")
    if code in NO_TABLES:
        return StoreMissing("this database holds no Holdfast tables; run: holdfast db migrate --store postgresql://…")
    if code == "42501":
        return StoreError(f"the database role may not do this ({text}); see docs/operate/postgres.md for what it needs")
    if code is not None and code.startswith(("22", "23")):
        return BadInput(f"the database refused a value: {text}")
    return StoreError(f"PostgreSQL: {text}")


def _table(error: asyncpg.PostgresError) -> str | None:
    name = getattr(error, "table_name", None)
    return name if isinstance(name, str) else None

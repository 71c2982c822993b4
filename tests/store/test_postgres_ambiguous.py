"""The connection is lost before the answer arrives: committed work is not repeated, other work is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.errors import StoreBusy
from holdfast.domain.event import Event, new_event
from holdfast.store.postgres import deliveries
from holdfast.store.postgres.pool import TRIES
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.store import PostgresStore
from pg_work import claim, end, send
from postgres import Server, opened

pytest_plugins = ("postgres",)


class Cutting:
    """Cuts the connection when a text passes over it: after the server has done what it says, or before.

    `whole`: at the commit of the transaction that the text belongs to.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, text: str, *, done: bool, times: int = 1, whole: bool = False
    ) -> None:
        self.cut, self._text, self._done, self._times, self._whole = 0, text, done, times, whole
        self._armed: Any = None
        for name in ("execute", "fetch", "fetchval"):
            monkeypatch.setattr(asyncpg.Connection, name, self._wrap(getattr(asyncpg.Connection, name)))

    def _is_here(self, connection: Any, query: str) -> bool:
        if not self._whole:
            return self._text in query
        if self._text in query:
            self._armed = connection
        return self._armed is connection and query == "COMMIT"

    def _wrap(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def wrapped(connection: Any, query: str, *values: Any, **more: Any) -> Any:
            if self.cut >= self._times or not self._is_here(connection, query):
                return await call(connection, query, *values, **more)
            self.cut += 1
            if self._done:
                await call(connection, query, *values, **more)
            connection.terminate()
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

        return wrapped


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("way", ["short", "long"])
async def test_a_settle_whose_answer_is_lost_counts_once_and_the_handler_runs_once(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch, way: str, done: bool
) -> None:
    runs: list[Any] = []

    async def handler(event: Event) -> None:
        runs.append(event.payload)

    store = PostgresStore.open(server.url(schema))
    contract = Contract("h", parse_address("handler:h"), source="programmatic")
    runtime = Runtime(store, load_config(None), None, handlers={"h": handler}, contracts=[contract])
    await runtime.start()
    try:
        await store.events.append([new_event("t", 0)])  # the first settle of a process always takes the long way
        await until_delivered(store, 1)
        if way == "long":
            monkeypatch.setattr(deliveries, "is_simple", lambda settlements: False)
            cutting = Cutting(monkeypatch, ".receipts (chain", done=done, whole=True)
        else:
            cutting = Cutting(monkeypatch, ".settle_delivered(", done=done)
        await store.events.append([new_event("t", 1)])
        await until_delivered(store, 2)
        await asyncio.sleep(0.3)
        assert cutting.cut == 1
        assert runs == [0, 1]
        rows = await store._pool.rows("SELECT state, attempts FROM {schema}.deliveries ORDER BY id")
        assert [tuple(row) for row in rows] == [("delivered", 1), ("delivered", 1)]
        assert await store._pool.value("SELECT count(*) FROM {schema}.ready") == 0
        of_deliveries = "SELECT count(*) FROM {schema}.receipts WHERE position('\"delivery\"'::bytea IN leaves) > 0"
        assert await store._pool.value(of_deliveries) == 2
        assert runtime.engine.in_flight == 0
    finally:
        await runtime.stop()


async def until_delivered(store: PostgresStore, count: int) -> None:
    async with asyncio.timeout(20):
        while await store._pool.value("SELECT count(*) FROM {schema}.deliveries WHERE state = 'delivered'") < count:
            await asyncio.sleep(0.02)


async def test_a_claim_whose_answer_is_lost_is_found_again(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(server, schema) as store:
        owner = await store.owners.register()
        await send(store, 3)
        cutting = Cutting(monkeypatch, ".lease(", done=True)
        claims = await claim(store, owner)
        assert (cutting.cut, len(claims), {one.starts for one in claims}) == (1, 3, {1})
        assert await end(store, owner, claims) == set()


async def test_leases_of_a_claim_that_never_answered_are_returned_with_the_next(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would lie there until its lease ends: its owner lives, and does not know of it."""
    async with opened(server, schema) as store:
        owner = await store.owners.register()
        await send(store, 3)
        cutting = Cutting(monkeypatch, ".lease(", done=True, times=TRIES)
        with pytest.raises(StoreBusy):
            await claim(store, owner)
        assert cutting.cut == TRIES
        assert await store._pool.value("SELECT count(*) FROM {schema}.ready WHERE token IS NOT NULL") == 3
        claims = await claim(store, owner)
        assert (len(claims), {one.starts for one in claims}) == (3, {1})
        assert await end(store, owner, claims) == set()


def test_a_connection_uses_only_the_calls_that_this_test_interrupts() -> None:
    names = {
        name
        for call in (PooledConnection.rows, PooledConnection.value, PooledConnection.run)
        for name in call.__code__.co_names
    }
    assert {"execute", "fetch", "fetchval"} <= names

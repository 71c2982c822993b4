"""A work that is cancelled leaves nothing behind in the pool: what is accepted afterwards is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from holdfast.domain.event import new_event
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.store import PostgresStore
from postgres import Server, opened

pytest_plugins = ("postgres",)


class CancelledAt:
    """Cancels the calling task once the server has received a query that begins with `words`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
        self._words, self.cancelled = words, 0
        monkeypatch.setattr(asyncpg.Connection, "execute", self._wrap(asyncpg.Connection.execute))

    def _wrap(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def wrapped(connection: Any, query: str, *values: Any, **more: Any) -> Any:
            if self.cancelled or not query.startswith(self._words):
                return await call(connection, query, *values, **more)
            self.cancelled += 1
            task = asyncio.current_task()
            assert task is not None
            # The query is on its way; a cancellation arrives before its answer, as at the stop of a daemon.
            asyncio.get_running_loop().call_soon(task.cancel)
            return await call(connection, query, *values, **more)

        return wrapped


async def _read(connection: PooledConnection) -> int:
    return int(await connection.value("SELECT 1"))


@pytest.mark.parametrize("words", ["BEGIN", "COMMIT"])
async def test_an_event_accepted_after_a_cancelled_work_is_committed(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    async with opened(server, schema) as store:
        await store.events.append([new_event("first")])
        cancelled = CancelledAt(monkeypatch, words)
        with pytest.raises(asyncio.CancelledError):
            await _in_task(store)
        assert cancelled.cancelled == 1
        (accepted,) = await store.events.append([new_event("order.placed", stream="order:1")])
        async with opened(server, schema) as another:
            assert await another.events.get(accepted.id) is not None, "accepted, but not committed"


async def _in_task(store: PostgresStore) -> int:
    return await asyncio.create_task(store._pool.run(_read))

"""Owners: the death of a process is seen at once, because the server frees its lock with its connection."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from holdfast.domain.event import new_event
from holdfast.store.postgres import liveness
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.roles.routing import Plan
from holdfast.store.roles.store import Store
from pg_work import claim, end, send
from postgres import Server, opened

pytest_plugins = ("postgres",)


async def until(condition: Any, seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_work_of_a_process_that_died_is_free_at_once(server: Server, schema: str) -> None:
    async with opened(server, schema) as one, opened(server, schema) as two:
        dead, alive = await one.owners.register(), await two.owners.register()
        await send(one, 5)
        stale = await claim(one, dead)
        assert await two.deliveries.reclaim() == 0
        await cut_off(one)
        await until_freed(two, 5)
        assert await end(one, dead, stale) == {one.delivery.id for one in stale}
        assert await end(two, alive, await claim(two, alive)) == set()


async def test_a_process_that_slept_past_its_lease_cannot_settle(server: Server, schema: str) -> None:
    """As after SIGSTOP: its lock is still held, its lease is over, and its token worth nothing."""
    async with opened(server, schema) as one, opened(server, schema) as two:
        sleeper, awake = await one.owners.register(), await two.owners.register()
        await send(one)
        (stale,) = await claim(one, sleeper, lease_s=0.05)
        await until_freed(two, 1)
        (held,) = await claim(two, awake)
        assert await one.deliveries.renew([stale], 60_000) == {stale.delivery.id}
        assert await end(one, sleeper, [stale]) == {stale.delivery.id}
        assert await end(two, awake, [held]) == set()


async def test_leases_run_on_the_databases_clock(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        owner = await store.owners.register()
        await send(store)
        await claim(store, owner, lease_s=30)
        left = await store._pool.value("SELECT lease_until - {schema}.now_ms() FROM {schema}.ready")
        assert 25_000 < left <= 30_000


async def test_a_broken_liveness_connection_is_replaced_with_its_locks(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        owner = await store.owners.register()
        await until(lambda: store._liveness.listens is not None)
        before = store._liveness.pid
        connection = await server.connect()
        await connection.execute("SELECT pg_terminate_backend($1)", before)
        await until(lambda: store._liveness.pid != before and store._liveness._rang)
        await send(store)
        await claim(store, owner)
        assert await store.deliveries.reclaim() == 0
        ended = await connection.fetchval(f"SELECT ended_at FROM {schema}.owners WHERE id = $1", owner.id)
        await connection.close()
        assert ended is None


async def test_the_next_owner_learns_that_an_earlier_one_did_not_stop_cleanly(
    server: Server,
    schema: str,
) -> None:
    async with opened(server, schema) as one, opened(server, schema) as two, opened(server, schema) as three:
        first = await one.owners.register()
        assert first.unclean is False
        assert (await two.owners.register()).unclean is False
        await one.owners.retire(first)
        await until_gone(server, await cut_off(two))
        last = await three.owners.register()
        assert (last.unclean, last.chain) == (True, first.chain)


async def test_a_hint_arrives_from_another_process_and_not_from_this_one(
    server: Server,
    schema: str,
) -> None:
    async with opened(server, schema) as worker, opened(server, schema) as writer:
        await worker.owners.register()
        await until(lambda: worker._liveness.listens)
        worker.maintenance.changed_elsewhere()
        await worker.events.append([new_event("t")])
        await asyncio.sleep(0.1)
        assert worker.maintenance.changed_elsewhere() is False
        async with worker.routing.batch(10) as batch:
            await batch.commit([Plan(event.n, (), 0) for event in batch.events])
        await writer.events.append([new_event("t")])
        await until(lambda: worker.maintenance.changed_elsewhere())


async def test_an_append_after_a_backlog_sends_no_notification(server: Server, schema: str) -> None:
    async with opened(server, schema) as worker, opened(server, schema) as writer:
        await worker.owners.register()
        await writer.events.append([new_event("t")])
        await until(lambda: worker.maintenance.changed_elsewhere())
        await writer.events.append([new_event("t")])
        await asyncio.sleep(0.1)
        assert worker.maintenance.changed_elsewhere() is False


async def test_without_listen_a_warning_is_logged_once_and_polling_finds_events(
    server: Server,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(liveness, "PROBE_WAIT_S", 0.05)
    monkeypatch.setattr(liveness, "PROBE_EVERY_S", 0.01)
    monkeypatch.setattr(liveness.Liveness, "_on_notify", lambda *_: None)
    with caplog.at_level(logging.WARNING, "holdfast.store"):
        async with opened(server, schema) as store:
            owner = await store.owners.register()
            await until(lambda: store._liveness._probes > 3)
            await send(store)
            assert len(await claim(store, owner)) == 1
            assert store.maintenance.changed_elsewhere() is False
    assert [record.message for record in caplog.records if "LISTEN" in record.message] == [
        "LISTEN does not work on this connection: new events are found by polling"
    ]


async def test_closing_at_the_moment_a_probe_comes_back_does_not_hang(server: Server, schema: str) -> None:
    for _ in range(40):
        async with opened(server, schema) as store, asyncio.timeout(60):
            await store.owners.register()
            await until(lambda: store._liveness._heard is not None)
            while not store._liveness._heard.done():  # type: ignore[union-attr]
                await asyncio.sleep(0)


async def cut_off(store: PostgresStore) -> int | None:
    """Ends the connection as the death of the process would. Returns the server's process for it."""
    await store._liveness._stop()
    assert store._liveness._connection is not None
    pid = store._liveness.pid
    store._liveness._connection.drop()
    liveness._LOCAL_OWNERS.difference_update(map(store._liveness._key, store._liveness._owners))
    return pid


async def until_freed(store: Store, count: int) -> None:
    freed = 0
    async with asyncio.timeout(60):  # leases are an hour long here: it is not their end that frees
        while freed < count:
            freed += await store.deliveries.reclaim()
    assert freed == count


async def until_gone(server: Server, pid: int | None) -> None:
    """The server has seen that the connection ended."""
    connection = await server.connect()
    async with asyncio.timeout(60):
        while await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid):
            await asyncio.sleep(0.01)
    await connection.close()

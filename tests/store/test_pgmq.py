"""The ready queue in pgmq: what pgmq shows, what other programs may do to it, and moves there and back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pgmq.install import get_embedded_install_sql

from holdfast.domain.delivery import Claim, Delivered, Retry
from holdfast.domain.errors import BadConfig, StoreBusy
from holdfast.domain.lane import lane_key
from holdfast.domain.states import State
from holdfast.domain.store_url import PGMQ_PREFIX
from holdfast.ledger.verifier import verify_receipts
from holdfast.store.open import open_store
from holdfast.store.pgmq import queue_admin
from holdfast.store.pgmq.statements import queue_name
from holdfast.store.postgres.place import in_schema
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.roles.operator import DeliveryFilter
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.queue_admin import QueueKind, QueueMove
from holdfast.testing.suite.harness import Harness, OpenStore
from pg_work import claim, end, send
from postgres import NEVER, Server, opened, own_server, versions

pytest_plugins = ("postgres",)

NATIVE, PGMQ = QueueKind.NATIVE, QueueKind.PGMQ


@pytest.fixture
def url(server: Server, schema: str) -> str:
    return server.url(schema, PGMQ_PREFIX)


@asynccontextmanager
async def reach(server: Server, schema: str) -> Any:
    """A connection of another program, and the name of the queue."""
    connection = await server.connect()
    try:
        yield connection, queue_name(schema)
    finally:
        await connection.close()


async def claim_all(store: PostgresStore, owner: Owner, count: int) -> list[Claim]:
    """The clocks of two processes differ by milliseconds, so what one of them sent may be due a moment later."""
    claims: list[Claim] = []
    async with asyncio.timeout(60):
        while len(claims) < count:
            claims += await claim(store, owner)
    return claims


async def states(store: PostgresStore) -> list[State]:
    return [row.state for row in (await store.operator.deliveries(DeliveryFilter(), None, 200)).items]


async def assert_nothing_is_stray(connection: Any, schema: str) -> None:
    for name, query in NEVER.items():
        assert await connection.fetch(in_schema(query, schema)) == [], name


async def test_a_new_store_keeps_its_queue_in_pgmq_if_its_url_asks_for_it(
    server: Server, schema: str, url: str
) -> None:
    store = open_store(url)
    try:
        assert await store.queue_admin.kind() is PGMQ
        owner = await store.owners.register()
        await send(store, 3)  # type: ignore[arg-type]
        async with reach(server, schema) as (connection, name):
            shown = await connection.fetchrow(f"SELECT * FROM pgmq.metrics('{name}')")
            assert (shown["queue_length"], shown["queue_visible_length"]) == (3, 3)
            rows = await connection.fetch(f"SELECT msg_id, read_ct, message->>'delivery' AS d FROM pgmq.q_{name}")
            assert [(row["read_ct"], str(row["msg_id"])) for row in rows] == [(0, row["d"]) for row in rows]
            claims = await claim(store, owner)
            shown = await connection.fetchrow(f"SELECT * FROM pgmq.metrics('{name}')")
            assert (shown["queue_length"], shown["queue_visible_length"]) == (3, 0), "leased messages are invisible"
            assert await end(store, owner, claims) == set()
            assert await connection.fetchval(f"SELECT count(*) FROM pgmq.q_{name}") == 0
    finally:
        await store.close()


async def test_a_url_that_names_another_queue_than_the_one_in_force_is_refused(
    server: Server, schema: str, url: str
) -> None:
    async with opened(server, schema) as store:
        assert await store.queue_admin.kind() is NATIVE
    store = open_store(url)
    with pytest.raises(BadConfig, match="holdfast db promote --to pgmq"):
        await store.queue_admin.kind()
    await store.close()


async def test_a_plain_url_uses_the_queue_in_force(server: Server, schema: str, url: str) -> None:
    store = open_store(url)
    assert await store.queue_admin.kind() is PGMQ
    await store.close()
    async with opened(server, schema) as plain:
        owner = await plain.owners.register()
        await send(plain)
        assert await end(plain, owner, await claim(plain, owner)) == set()
        assert await plain.queue_admin.kind() is PGMQ


async def test_a_move_there_and_back_keeps_rows_leases_starts_and_due_times(server: Server, schema: str) -> None:
    async with opened(server, schema) as store, reach(server, schema) as (connection, _):
        owner = await store.owners.register()
        await send(store, 5)
        held = await claim(store, owner)
        await store.deliveries.release(held[2:])
        later = f"UPDATE {schema}.ready SET due_at = due_at + 3600000 WHERE delivery = $1"
        await connection.execute(later, held[4].delivery.id)
        columns = "delivery, queue, due_at, starts, owner, token"
        before = await connection.fetch(f"SELECT {columns} FROM {schema}.ready ORDER BY delivery")
        by = owner.acting("local:test")
        assert await store.queue_admin.move(PGMQ, by) == QueueMove(NATIVE, PGMQ, 5)
        assert await connection.fetch(f"SELECT {columns} FROM {schema}.ready ORDER BY delivery") == before
        assert await end(store, owner, held[:1]) == set(), "a lease outlives the move"
        assert await store.queue_admin.move(NATIVE, by) == QueueMove(PGMQ, NATIVE, 4)
        after = await connection.fetch(f"SELECT {columns} FROM {schema}.ready ORDER BY delivery")
        assert after == before[1:]
        assert await end(store, owner, held[1:2]) == set()
        assert await end(store, owner, await claim(store, owner)) == set()
        assert sorted(await states(store)) == sorted([State.DELIVERED] * 4 + [State.PENDING])
        assert (
            await connection.fetchval("SELECT count(*) FROM pgmq.meta WHERE queue_name = $1", queue_name(schema)) == 0
        )
        verified = await verify_receipts(store.receipts, rows=True)
        assert [fault.message for fault in verified.faults] == ["contract c has no receipt"]  # put by nobody
        await assert_nothing_is_stray(connection, schema)


async def test_a_move_writes_a_receipt(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        owner = await store.owners.register()
        await send(store, 2)
        await store.queue_admin.move(PGMQ, owner.acting("local:test"))
        links = [link for page in [page async for page in store.receipts.every()] for link in page]
        assert b'"promote"' in links[-1].leaves
        assert b'"pgmq"' in links[-1].leaves


async def test_views_and_their_grants_survive_a_move(server: Server, schema: str) -> None:
    async with opened(server, schema) as store, reach(server, schema) as (connection, _):
        owner = await store.owners.register()
        await send(store)
        await connection.execute(f"GRANT SELECT ON {schema}.webhook_outbox TO PUBLIC")
        claims = await claim(store, owner)
        for kind in (PGMQ, NATIVE):
            await store.queue_admin.move(kind, owner.acting("test"))
            shown = await connection.fetchval(f"SELECT locked_at FROM {schema}.inbound_queue LIMIT 1")
            assert shown is None
            definition = await connection.fetchval(f"SELECT pg_get_viewdef('{schema}.webhook_outbox'::regclass)")
            assert f"{schema}.ready r" in definition
            assert await connection.fetchval(
                f"SELECT has_table_privilege('public', '{schema}.webhook_outbox', 'SELECT')"
            )
        assert await end(store, owner, claims) == set()


async def test_processes_that_run_meanwhile_continue_with_the_moved_queue(server: Server, schema: str) -> None:
    async with opened(server, schema) as store, opened(server, schema) as other:
        owner, second = await store.owners.register(), await other.owners.register()
        for kind in (PGMQ, NATIVE, PGMQ):
            await send(store, 4)
            assert await end(other, second, await claim_all(other, second, 4)) == set()  # statements are prepared now
            await send(store, 4)
            held = await claim_all(other, second, 4)
            await store.queue_admin.move(kind, owner.acting("test"))
            assert await end(other, second, held) == set()
        assert set(await states(store)) == {State.DELIVERED}


async def test_moves_among_claims_lose_and_repeat_nothing(server: Server, schema: str) -> None:
    async with opened(server, schema) as store, opened(server, schema) as other:
        owner, second = await store.owners.register(), await other.owners.register()
        seen: list[int] = []
        sent, stop = 0, False

        async def work(store: PostgresStore, owner: Any) -> None:
            while not stop or (await store.queue_admin.load()).depth:
                claims = await claim(store, owner)
                assert await end(store, owner, claims) == set()
                seen.extend(one.delivery.id for one in claims)

        workers = [asyncio.ensure_future(work(store, owner)), asyncio.ensure_future(work(other, second))]
        for turn in range(12):
            await send(store, 20)
            sent += 20
            await store.queue_admin.move(PGMQ if turn % 2 == 0 else NATIVE, owner.acting("test"))
        stop = True
        async with asyncio.timeout(60):
            await asyncio.gather(*workers)
        assert len(seen) == len(set(seen)) == sent
        assert set(await states(store)) == {State.DELIVERED}


class TestOtherPrograms:
    """Deliveries are the truth: whatever another program does to the queue, none is lost or settled twice."""

    @pytest.fixture
    def open_store(self, open_pgmq: OpenStore) -> OpenStore:
        return open_pgmq

    @pytest.fixture
    async def harness(self, open_store: OpenStore) -> Any:
        harness = await Harness.start(open_store)
        await harness.contract()
        yield harness
        await harness.close()

    @asynccontextmanager
    async def other(self, server: Server, harness: Harness) -> Any:
        assert isinstance(harness.store, PostgresStore)
        async with reach(server, harness.store._pool.place.schema) as found:
            yield found

    async def test_a_message_that_another_program_read_is_left_to_it(self, server: Server, harness: Harness) -> None:
        id = await harness.send()
        async with self.other(server, harness) as (connection, name):
            assert await connection.fetchval(f"SELECT msg_id FROM pgmq.read('{name}', 30, 1)") == id
        assert await harness.claim() == []
        assert await harness.store.deliveries.reclaim() == 0, "its time is not over"

    async def test_who_held_it_before_has_lost_it(self, server: Server, harness: Harness) -> None:
        await harness.send()
        held = await harness.take()
        async with self.other(server, harness) as (connection, name):
            await connection.execute(f"SELECT pgmq.set_vt('{name}', {held.delivery.id}, 0)")
            assert await connection.fetchval(f"SELECT count(*) FROM pgmq.read('{name}', 30, 1)") == 1
        assert not await harness.settle(held, Delivered()), "its count of reads has changed"
        row = await harness.row(held.delivery.id)
        assert row.state == State.PENDING

    @pytest.mark.parametrize("how", ["pgmq.delete('{0}', {1})", "pgmq.purge_queue('{0}')", "pgmq.archive('{0}', {1})"])
    async def test_a_removed_message_comes_back(self, server: Server, harness: Harness, how: str) -> None:
        id = await harness.send()
        async with self.other(server, harness) as (connection, name):
            await connection.execute(f"SELECT {how.format(name, id)}")
        assert await harness.claim() == []
        assert (await harness.store.queue_admin.repair(0, 1000))[:2] == (1, 0)
        assert await harness.end(Delivered()) == id

    async def test_only_what_can_be_claimed_comes_back(self, server: Server, harness: Harness) -> None:
        await harness.contract("ordered", ordered=True)
        for stream in ("a", "a", "b", "c"):
            await harness.send(stream=stream)
        assert await harness.store.operator.pause("lane", lane_key("handler", "handler:h", "ordered", "c", True))
        before = await harness.store.queue_admin.load()
        async with self.other(server, harness) as (connection, name):
            await connection.execute(f"SELECT pgmq.purge_queue('{name}')")
        position, added = 0, 0
        while True:
            repair = await harness.store.queue_admin.repair(position, 2)
            added, position = added + repair.added, repair.position
            if not position:
                break
        assert added == before.depth
        assert (await harness.store.queue_admin.load()).depth == before.depth

    async def test_a_message_without_a_delivery_is_removed(self, server: Server, harness: Harness) -> None:
        id = await harness.send()
        await harness.end(Delivered())
        async with self.other(server, harness) as (connection, name):
            await connection.execute(f"INSERT INTO pgmq.q_{name} (msg_id, queue, due_at) VALUES ({id}, 1, 0)")
        assert (await harness.store.queue_admin.repair(0, 1000))[:2] == (0, 1)
        assert await harness.claim() == []

    async def test_a_message_sent_by_another_program_is_refused(self, server: Server, harness: Harness) -> None:
        await harness.send()
        async with self.other(server, harness) as (connection, name):
            with pytest.raises(Exception, match="publish an event instead"):
                await connection.execute(f"SELECT pgmq.send('{name}', '{{}}')")
        await harness.end(Delivered())

    async def test_a_retry_becomes_visible_when_it_is_due(self, server: Server, harness: Harness) -> None:
        await harness.send()
        id = await harness.end(Retry("503"))
        async with self.other(server, harness) as (connection, name):
            vt = await connection.fetchval(f"SELECT (extract(epoch FROM vt) * 1000)::bigint FROM pgmq.q_{name}")
        row = await harness.row(id)
        assert vt == row.due_at_ms


async def test_a_queue_of_the_same_name_is_not_taken_over(server: Server, schema: str) -> None:
    async with opened(server, schema) as store, reach(server, schema) as (connection, name):
        owner = await store.owners.register()
        await send(store)
        await store.queue_admin.move(PGMQ, owner.acting("test"))
        await store.queue_admin.move(NATIVE, owner.acting("test"))
        await connection.execute(f"SELECT pgmq.create('{name}')")
        with pytest.raises(BadConfig, match="already has a queue"):
            await store.queue_admin.move(PGMQ, owner.acting("test"))
        assert await end(store, owner, await claim(store, owner)) == set()
        await connection.execute(f"SELECT pgmq.drop_queue('{name}')")


async def test_a_move_does_not_hold_up_the_store_for_long(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dump or a person's open transaction keeps the lock away: the move gives up, and everything goes on."""
    monkeypatch.setattr(queue_admin, "LOCK_WAIT_MS", 200)
    async with opened(server, schema) as store, reach(server, schema) as (connection, _):
        owner = await store.owners.register()
        await send(store)
        async with connection.transaction():
            await connection.fetch(f"SELECT * FROM {schema}.ready")
            with pytest.raises(StoreBusy):
                await store.queue_admin.move(PGMQ, owner.acting("test"))
            assert await end(store, owner, await claim(store, owner)) == set()
        await store.queue_admin.move(PGMQ, owner.acting("test"))


async def test_without_pgmq_on_the_server_and_without_its_package_the_message_names_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = own_server(list(versions())[-1])
    monkeypatch.setattr(queue_admin, "find_spec", lambda name: None)
    async with opened(server, "holdfast") as store:
        owner = await store.owners.register()
        with pytest.raises(BadConfig, match=r"pip install '.\[pgmq\]'"):
            await store.queue_admin.move(PGMQ, owner.acting("test"))
        assert await store.queue_admin.kind() is NATIVE


@pytest.fixture
def extended(tmp_path: Path) -> Iterator[Server]:
    """A server that offers pgmq as an extension, made from the SQL of its package."""
    server = own_server("18")
    folder = server.folder / "offered" / "extension"
    folder.mkdir(parents=True)
    (folder / "pgmq.control").write_text("default_version = '1.13.0'\nschema = 'pgmq'\nrelocatable = false\n")
    script = get_embedded_install_sql()
    (folder / "pgmq--1.13.0.sql").write_text(script)
    for path in (folder.parent, folder, *folder.iterdir()):
        path.chmod(0o755)
    server.psql(f"ALTER SYSTEM SET extension_control_path = '$system:{folder.parent}'; SELECT pg_reload_conf();")
    return server


async def test_the_servers_own_extension_is_preferred(extended: Server) -> None:
    async with opened(extended, "holdfast") as store:
        owner = await store.owners.register()
        await send(store)
        await store.queue_admin.move(PGMQ, owner.acting("test"))
        connection = await extended.connect()
        try:
            assert await connection.fetchval("SELECT count(*) FROM pg_extension WHERE extname = 'pgmq'") == 1
        finally:
            await connection.close()
        assert await end(store, owner, await claim(store, owner)) == set()
        await store.queue_admin.move(NATIVE, owner.acting("test"))

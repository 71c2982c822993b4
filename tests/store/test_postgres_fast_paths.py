"""Frequent operations take few round trips; unusual cases take the general path, with the same result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.event import new_event
from holdfast.domain.receipt import Head, verify
from holdfast.domain.states import State
from holdfast.store.postgres.statements import sql
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.operator import DeliveryFilter
from holdfast.store.roles.routing import Plan, RouteTarget, RoutingBatch
from pg_work import claim, end, send
from postgres import Server, opened

pytest_plugins = ("postgres",)


@asynccontextmanager
async def trips(store: PostgresStore) -> AsyncIterator[list[str]]:
    """The first word of every statement that goes to the server meanwhile; each is a round trip.

    What the driver itself asks on a connection that is new to a statement, to learn its types, does not count.
    """
    sent: list[str] = []

    def note(query: Any) -> None:
        lines = [line for line in query.query.splitlines() if line.strip() and not line.startswith("--")]
        if "typeinfo_tree" not in query.query and "set_config('jit'" not in query.query:
            sent.append(lines[0].split()[0])

    async with asyncio.timeout(30):  # a connection may still be on its way back into the pool
        while len(store._pool._idle) < len(store._pool.pids):
            await asyncio.sleep(0.01)
    sessions = list(store._pool._idle)
    for connection in sessions:
        connection.raw.add_query_logger(note)
    yield sent
    await asyncio.sleep(0)  # the driver tells of a query on the loop's next turn
    for connection in sessions:
        connection.raw.remove_query_logger(note)
    assert len(store._pool.pids) == len(sessions), "a connection came that was not listened to"


async def route(batch: RoutingBatch, queue: int) -> None:
    target = RouteTarget(queue, "handler:h", "handler", None)
    assert await batch.commit([Plan(event.n, (target,), 0) for event in batch.events])


async def deliveries(store: PostgresStore) -> list[State]:
    return [row.state for row in (await store.operator.deliveries(DeliveryFilter(), None, 100)).items]


async def assert_the_book_is_whole(store: PostgresStore) -> int:
    links = [link for page in [page async for page in store.receipts.every()] for link in page]
    assert list(verify(links, heads=await store.receipts.heads())) == []
    return sum(link.count for link in links)


async def test_an_event_takes_eight_round_trips_from_its_append_to_its_end(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        owner = await store.owners.register()
        await send(store)
        await end(store, owner, await claim(store, owner))  # from now on it knows its chain's head
        async with store.routing.batch(500) as batch:  # as the router does after each batch
            assert len(batch.events) == 0
        (queue,) = await store.contracts.queues()
        async with trips(store) as sent:
            await store.events.append([new_event("t") for _ in range(20)])
        assert sent == ["WITH"]
        async with trips(store) as sent, store.routing.batch(500) as batch:
            await route(batch, queue.id)
        assert sent == ["BEGIN", "SELECT", "WITH", "COMMIT"]
        async with trips(store) as sent:
            claims = await claim(store, owner)
        assert (len(claims), sent) == (20, ["WITH", "SELECT"])
        async with trips(store) as sent:
            assert await end(store, owner, claims) == set()
        assert sent == ["SELECT"]
        assert await assert_the_book_is_whole(store) == 21


async def test_a_claim_that_finds_nothing_takes_one_round_trip(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        owner = await store.owners.register()
        await send(store)
        await end(store, owner, await claim(store, owner))
        async with trips(store) as sent:
            assert await claim(store, owner) == []
            async with store.routing.batch(500) as batch:
                assert (len(batch.events), await batch.commit([])) == (0, False)
        assert len(sent) == 2


async def test_an_append_whose_answer_was_lost_gives_the_same_answer_again(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        await store._pool.opened()
        prepared = [(new_event("t", i), f"evt_{i:032x}") for i in range(3)]
        first = await store.events._append(prepared)
        assert await store.events._append(prepared) == first
        assert len((await store.events.find(EventFilter(), None, 10)).items) == 3
        assert await store.routing.backlog() == 3


async def test_a_plan_that_names_a_queue_twice_makes_one_delivery(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        await store.contracts.put(Contract("c", parse_address("handler:h")), None)
        (queue,) = await store.contracts.queues()
        await store.events.append([new_event("t"), new_event("t")])
        target = RouteTarget(queue.id, "handler:h", "handler", None)
        async with store.routing.batch(10) as batch:
            matched, unmatched = batch.events
            assert await batch.commit([Plan(matched.n, (target, target), 0), Plan(unmatched.n, (), 0)])
        assert await deliveries(store) == [State.PENDING]
        found = await store.events.find(EventFilter(unmatched=True), None, 10)
        assert [event.id for event in found.items] == [unmatched.id]


async def test_one_lost_lease_does_not_hold_up_the_others(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        owner = await store.owners.register()
        await send(store)
        await end(store, owner, await claim(store, owner))
        await send(store, 3)
        claims = await claim(store, owner)
        await store.deliveries.release(claims[1:2])
        assert await end(store, owner, claims) == {claims[1].delivery.id}
        assert sorted(await deliveries(store)) == sorted([State.DELIVERED] * 3 + [State.PENDING])
        assert await assert_the_book_is_whole(store) == 3
        assert await end(store, owner, await claim(store, owner)) == set()
        assert await assert_the_book_is_whole(store) == 4


async def test_a_chain_extended_by_another_process_stays_valid(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        owner = await store.owners.register()
        for head in (None, Head(7, bytes(32)), Head(0, bytes(32))):
            if head is not None:
                store.deliveries._heads[owner.chain] = head
            await send(store)
            assert await end(store, owner, await claim(store, owner)) == set()
        assert await assert_the_book_is_whole(store) == 3


async def test_the_next_in_a_lane_comes_after_each_short_settle(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        owner = await store.owners.register()
        await store.contracts.put(Contract("c", parse_address("handler:h")), None)
        (queue,) = await store.contracts.queues()
        await store.events.append([new_event("t", i, stream="s") for i in range(4)])
        target = RouteTarget(queue.id, "handler:h", "handler", "c s")
        async with store.routing.batch(10) as batch:
            assert await batch.commit([Plan(event.n, (target,), 0) for event in batch.events])
        topics: list[str] = []
        store.on_change(topics.append)
        for i in range(4):
            (only,) = await claim(store, owner)
            assert only.event.payload == i
            topics.clear()
            assert await end(store, owner, [only]) == set()
            assert topics == (["deliveries"] if i < 3 else [])
        assert await claim(store, owner) == []


@pytest.mark.parametrize("name", ["lease_renew", "lease_release", "ready_end", "ready_again"])
async def test_no_lease_is_compared_with_every_other(server: Server, schema: str, name: str) -> None:
    """A whole batch has one token: found by that, five hundred leases would be 250,000 comparisons."""
    async with opened(server, schema) as store, store._pool.connection() as connection:
        text = connection._named(getattr(sql, name))
        prepared = await connection.raw.prepare(text)
        values = [[1, 2] if "[]" in kind.name else 1 for kind in prepared.get_parameters()]
        await connection.raw.execute("SET enable_seqscan = off")
        plan = "\n".join(row[0] for row in await connection.raw.fetch(f"EXPLAIN {text}", *values))
        assert "ready_pkey" in plan
        assert "ready_leased" not in plan


async def test_an_event_of_another_process_wakes_listeners_at_once(server: Server, schema: str) -> None:
    async with opened(server, schema) as worker, opened(server, schema) as writer:
        await worker.owners.register()
        topics: list[str] = []
        worker.on_change(topics.append)
        await writer.events.append([new_event("t")])
        async with asyncio.timeout(30):
            while not topics:
                await worker.contracts.version()
        assert topics == ["events"]


@pytest.mark.parametrize("default", ["on", "off"])
async def test_a_settle_is_flushed_and_a_lease_is_not_whatever_the_role_prefers(
    server: Server, schema: str, default: str
) -> None:
    async with opened(server, schema) as store:
        await send(store)
        async with store._pool.connection() as connection:
            chain = await connection.value("INSERT INTO {schema}.nodes (chain) VALUES ('x') RETURNING chain")
            await connection.raw.execute(f"SET synchronous_commit = {default}")
            transaction = connection.raw.transaction()
            await transaction.start()
            (held,) = await connection.rows(sql.ready_lease, 1, 7, None, [1], [1], [1000], 1 << 60, 1, 1)
            assert await connection.value("SHOW synchronous_commit") == "off"
            digest = bytes(32)
            fence = (f"{{{held['delivery']}}}", "{7}", "{1}")
            await connection.value(sql.settle_delivered, *fence, 1, chain, 1, digest, digest, digest, b"{}")
            assert await connection.value("SHOW synchronous_commit") == "on"
            await transaction.rollback()
            connection.drop()


async def test_no_read_scans_a_whole_table_because_it_was_empty_once(server: Server, schema: str) -> None:
    async with opened(server, schema) as store, store._pool.connection() as connection:
        for name in ("ready_queues", "unrouted_first"):
            text = connection._named(getattr(sql, name))
            values = [1] * len((await connection.raw.prepare(text)).get_parameters())
            plan = "\n".join(row[0] for row in await connection.raw.fetch(f"EXPLAIN {text}", *values))
            assert "Seq Scan" not in plan

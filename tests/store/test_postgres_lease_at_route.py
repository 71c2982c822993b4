"""One process alone on a schema leases new deliveries in the transaction that routes them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.errors import StoreBusy
from holdfast.domain.event import new_event
from holdfast.domain.states import State
from holdfast.store.postgres.routing import PAYLOAD_MAX, PostgresRoutingBatch, RouterPosition
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.roles.operator import DeliveryFilter
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.routing import LeaseOffer, Plan, RouteTarget, RoutingBatch
from pg_work import claim, end
from postgres import Server, opened

pytest_plugins = ("postgres",)


async def prepare(store: PostgresStore, ordered: bool = False) -> tuple[Owner, RouteTarget]:
    owner = await store.owners.register()
    await store.contracts.put(Contract("c", parse_address("handler:h"), ordered=ordered), None)
    (queue,) = await store.contracts.queues()
    return owner, RouteTarget(queue.id, "handler:h", "handler", None, None, "c")


async def commit(batch: RoutingBatch, owner: Owner, target: RouteTarget, places: int = 500) -> bool:
    assert target.queue is not None
    offer = LeaseOffer(owner.id, {target.queue: places}, {target.queue: 30_000}, 0)
    due = batch.due_at_ms
    return await batch.commit([Plan(event.n, (target,), due.get(event.n, 0)) for event in batch.events], owner, offer)


async def test_deliveries_are_leased_as_far_as_the_offer_goes(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        owner, target = await prepare(store)
        await store.events.append([new_event("t", {"i": i}) for i in range(5)])
        async with store.routing.batch(500, payloads=True) as batch:
            assert batch.can_lease
            assert await commit(batch, owner, target, places=3)
        assert [one.event.payload for one in batch.claims] == [{"i": 0}, {"i": 1}, {"i": 2}]
        assert {(one.starts, one.delivery.contract_id, one.delivery.address) for one in batch.claims} == {
            (1, "c", "handler:h")
        }
        others = await claim(store, owner)
        assert [one.event.payload for one in others] == [{"i": 3}, {"i": 4}]
        assert await end(store, owner, [*batch.claims, *others]) == set()
        rows = (await store.operator.deliveries(DeliveryFilter(), None, 100)).items
        assert {row.state for row in rows} == {State.DELIVERED}


async def test_a_lease_taken_while_routing_is_reclaimed_when_its_owner_is_gone(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        owner, target = await prepare(store)
        await store.events.append([new_event("t")])
        async with store.routing.batch(500, payloads=True) as batch:
            assert await commit(batch, owner, target)
        assert len(batch.claims) == 1
        await store.owners.retire(owner)
        await store.deliveries.reclaim()
        successor = await store.owners.register()
        (again,) = await claim(store, successor)
        assert (again.delivery.id, again.starts) == (batch.claims[0].delivery.id, 2)
        assert await end(store, owner, list(batch.claims)) == {again.delivery.id}


async def test_nothing_is_leased_for_a_paused_queue(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        owner, target = await prepare(store)
        await store.operator.pause("contract", "c")
        await store.events.append([new_event("t")])
        async with store.routing.batch(500, payloads=True) as batch:
            assert await commit(batch, owner, target)
        assert batch.claims == ()
        assert await claim(store, owner) == []
        await store.operator.resume("contract", "c")
        assert len(await claim(store, owner)) == 1


async def test_delayed_events_and_large_payloads_are_queued(server: Server, schema: str) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    async with opened(server, schema) as store:
        owner, target = await prepare(store)
        large = new_event("t", "x" * PAYLOAD_MAX)
        await store.events.append([new_event("t", at=later), large, new_event("t", "x" * (PAYLOAD_MAX - 2))])
        async with store.routing.batch(500, payloads=True) as batch:
            assert await commit(batch, owner, target)
        (small,) = batch.claims
        assert small.event.payload == "x" * (PAYLOAD_MAX - 2)
        (queued,) = await claim(store, owner)
        assert queued.event.payload == "x" * PAYLOAD_MAX


async def test_several_processes_share_by_claims(server: Server, schema: str) -> None:
    async with opened(server, schema) as store, opened(server, schema) as other:
        owner, target = await prepare(store)
        await other.owners.register()
        await store.events.append([new_event("t")])
        async with store.routing.batch(500, payloads=True) as batch:
            assert not batch.can_lease
            assert await commit(batch, owner, target)
        assert batch.claims == ()


async def test_leases_of_a_commit_whose_response_was_lost_are_given_back(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(server, schema) as store:
        owner, target = await prepare(store)
        await store.events.append([new_event("t")])
        end_batch = PostgresRoutingBatch._end

        async def end_and_fail(batch: PostgresRoutingBatch, routed: int | None) -> None:
            await end_batch(batch, routed)
            raise ConnectionError("the response was lost")

        monkeypatch.setattr(PostgresRoutingBatch, "_end", end_and_fail)
        async with store.routing.batch(500, payloads=True) as batch:
            with pytest.raises(StoreBusy):
                await commit(batch, owner, target)
        (again,) = await claim(store, owner)
        assert again.starts == 1


async def test_an_event_that_commits_late_is_routed_before_its_successor(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The router reads on where it stopped; the first event of the stream has a number far behind that position."""
    monkeypatch.setattr(RouterPosition, "EVERY_S", 1e9)
    async with opened(server, schema) as store:
        await prepare(store)
        await store.events.append([new_event("t", stream="s")])
        await store.events.append([new_event("t") for _ in range(RouterPosition.BACK + 100)])
        connection = await server.connect()
        late = await connection.fetchval(f'SELECT min(event) FROM "{schema}".unrouted')
        await connection.execute(f'DELETE FROM "{schema}".unrouted WHERE event = $1', late)  # not committed yet
        routed = 0
        while routed < RouterPosition.BACK + 100:
            async with store.routing.batch(500) as batch:
                assert await batch.commit([Plan(event.n, (), 0) for event in batch.events])
                routed += len(batch.events)
        await connection.execute(f'INSERT INTO "{schema}".unrouted VALUES ($1)', late)
        await store.events.append([new_event("t", stream="s")])
        async with store.routing.batch(500) as batch:
            assert [event.seq for event in batch.events] == [1, 2]
        await connection.close()


async def test_an_event_that_commits_late_is_found_without_a_successor(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        await prepare(store)
        await store.events.append([new_event("t") for _ in range(3)])
        connection = await server.connect()
        late = await connection.fetchval(f'SELECT min(event) FROM "{schema}".unrouted')
        await connection.execute(f'DELETE FROM "{schema}".unrouted WHERE event = $1', late)  # not committed yet
        async with store.routing.batch(500) as batch:
            assert await batch.commit([Plan(event.n, (), 0) for event in batch.events])
        store.routing._position._last = late + RouterPosition.BACK + 1
        await connection.execute(f'INSERT INTO "{schema}".unrouted VALUES ($1)', late)
        async with asyncio.timeout(30):
            while True:
                async with store.routing.batch(500) as batch:
                    await batch.commit([Plan(event.n, (), 0) for event in batch.events])
                if batch.events:
                    break
                await asyncio.sleep(0.01)
        assert [event.n for event in batch.events] == [late]
        await connection.close()


def test_reading_all_waiting_events_takes_a_small_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("holdfast.store.postgres.routing.time.monotonic", lambda: clock[0])
    position = RouterPosition()
    position._last = 10 * RouterPosition.BACK
    assert position.start() == 0
    clock[0] += 0.5  # the read takes half a second
    position.passed([])
    clock[0] += RouterPosition.SHARE * 0.5 - 0.1
    assert position.start() == 9 * RouterPosition.BACK
    clock[0] += 0.2
    assert position.start() == 0

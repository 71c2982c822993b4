"""Many processes on one database: nothing skipped, nothing doubled, no circle of waiting."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace

import pytest

from holdfast.domain.address import KINDS, parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.delivery import Claim, Delivered, settle
from holdfast.domain.delivery import Settlement as End
from holdfast.domain.errors import DedupConflict, StoreBusy
from holdfast.domain.event import new_event
from holdfast.domain.retry import POLICIES
from holdfast.proof.kills.writers import Writing, judge, route_all, write_for
from holdfast.routing.registry import Registry
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.roles.deliveries import ClaimRequest, Served
from holdfast.store.roles.owners import Owner
from postgres import Server, opened

pytest_plugins = ("postgres",)

SECONDS = 5.0


def request(owner: Owner, limit: int = 100) -> ClaimRequest:
    leases = dict.fromkeys(KINDS, 30_000)
    return ClaimRequest(owner.id, Served(frozenset(KINDS), frozenset()), limit, leases, {}, dict.fromkeys(KINDS, 1000))


def delivered(claim: Claim) -> End:
    transition = settle(claim.delivery.attempts, Delivered(), POLICIES["webhook"], 1_700_000_000_000, 0.0)
    return End(claim, transition, outcome="delivered")


@pytest.mark.slow
async def test_eight_writers_with_rollbacks_leave_no_gap_and_the_router_skips_nothing(
    server: Server,
    schema: str,
) -> None:
    """One stream or one publish_many in each transaction: then there is no deadlock either."""
    found = await write_for(server.url(schema), SECONDS)
    assert found.violations == []
    assert min(found.events, found.rolled_back, found.long) > 0
    assert sum(len(run) for run in found.routed) == found.events
    # The check itself: it fails on a store with one event more, less, or left unrouted.
    heads = dict(found.committed)
    assert judge(found, heads, 0) == []
    assert {fault.promise for fault in judge(found, {**heads, "s0": heads["s0"] + 1}, 1)} == {"lost", "writers"}


def test_the_check_of_the_writers_finds_skipped_and_overtaking_events_and_deadlocks() -> None:
    good = Writing(committed=Counter(s=3), routed=[[("s", 1), ("s", 3)], [("s", 2)]])
    assert judge(good, {"s": 3}, 0) == []
    assert [fault.promise for fault in judge(replace(good, routed=[[("s", 1), ("s", 3)]]), {"s": 3}, 0)] == ["lost"]
    overtaken = replace(good, routed=[[("s", 2), ("s", 1)], [("s", 3)]])
    assert [fault.promise for fault in judge(overtaken, {"s": 3}, 0)] == ["order"]
    assert [fault.promise for fault in judge(replace(good, deadlocks=1), {"s": 3}, 0)] == ["writers"]


async def test_a_killed_backend_and_a_retry_with_the_same_key_make_one_event(
    server: Server,
    schema: str,
) -> None:
    async with opened(server, schema) as store:
        await store.contracts.version()
        killer, chance = await server.connect(), random.Random(7)
        done = asyncio.Event()

        kills = 0

        async def kill() -> None:
            nonlocal kills
            while not done.is_set():
                kills += await killer.fetchval(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                    "WHERE application_name = 'holdfast' AND pid <> pg_backend_pid()"
                )
                await asyncio.sleep(chance.uniform(0.0, 0.08))  # on a busy machine connecting takes a while too

        killing = asyncio.create_task(kill())
        appended = []
        while len(appended) < 60 or (kills <= 5 and len(appended) < 5000):  # on a quick machine it takes more of them
            i = len(appended)
            event = new_event("t", i, stream="s", dedup_key=f"k{i}")
            while True:
                try:
                    appended.append((await store.events.append([event]))[0])
                    break
                except StoreBusy:
                    continue
        done.set()
        await killing
        assert kills > 5
        await killer.close()
        assert [one.seq for one in appended] == list(range(1, len(appended) + 1))
        read = await store.events.read("s", 0, len(appended) + 1)
        assert [event.payload for event in read] == list(range(len(appended)))


async def test_two_daemons_never_claim_the_same_and_order_holds(server: Server, schema: str) -> None:
    async with opened(server, schema) as one, opened(server, schema) as two:
        await one.contracts.put(Contract("c", parse_address("handler:h"), ordered=True), None)
        (queue,) = await one.contracts.queues()
        await one.events.append([new_event("t", i, stream=f"s{i % 20}" if i % 2 else None) for i in range(1000)])
        await route_all(one, queue.id)
        owners = [await one.owners.register(), await two.owners.register()]
        assert owners[0].chain != owners[1].chain
        seen: list[tuple[str, int]] = []

        async def drain(store: PostgresStore, owner: Owner) -> int:
            total = idle = 0
            while idle < 20:
                claims = (await store.deliveries.claim(request(owner, 37))).claims
                idle = 0 if claims else idle + 1
                seen.extend((claim.event.stream, claim.event.seq) for claim in claims)
                if claims:
                    assert await store.deliveries.settle(owner, [delivered(claim) for claim in claims]) == set()
                    total += len(claims)
            return total

        totals = await asyncio.gather(drain(one, owners[0]), drain(two, owners[1]))
        assert sum(totals) == len(seen) == len(set(seen)) == 1000
        assert min(totals) > 0
        for stream in (f"s{i}" for i in range(20)):
            seqs = [seq for name, seq in seen if name == stream]
            assert seqs == sorted(seqs)


async def test_only_one_process_routes_at_a_time(server: Server, schema: str) -> None:
    async with opened(server, schema) as one, opened(server, schema) as two:
        await one.events.append([new_event("t")])
        async with one.routing.batch(10) as mine, two.routing.batch(10) as other:
            assert (len(mine.events), len(other.events)) == (1, 0)
        async with two.routing.batch(10) as other:
            assert len(other.events) == 1


async def test_a_deadlock_is_rolled_back_and_retried(server: Server, schema: str) -> None:
    """Two appends in one transaction on two streams, in both orders: one is undone by the server."""
    async with opened(server, schema) as store:
        await store.events.append([new_event("t", stream="a"), new_event("t", stream="b")])
        connection = await server.connect()
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("SET LOCAL deadlock_timeout = '10s'")  # so that it is our store that is undone
        await connection.fetch(f"SELECT * FROM {schema}.publish('t', stream => 'b')")
        appending = asyncio.create_task(store.events.append([new_event("t", stream=s) for s in ("b", "a")]))
        await asyncio.sleep(0.1)
        await connection.fetch(f"SELECT * FROM {schema}.publish('t', stream => 'a')")
        await transaction.commit()
        await connection.close()
        assert {one.seq for one in await appending} == {3}


async def test_appends_that_share_a_commit_do_not_share_a_refusal(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        await store.events.append([new_event("t", 0, dedup_key="k")])
        events = [new_event("t", i, stream=f"s{i % 3}", dedup_key="k" if i == 20 else None) for i in range(40)]
        answers = await asyncio.gather(*(store.events.append([event]) for event in events), return_exceptions=True)
        assert [i for i, answer in enumerate(answers) if isinstance(answer, BaseException)] == [20]
        assert isinstance(answers[20], DedupConflict)
        for stream, count in (("s0", 14), ("s1", 13), ("s2", 12)):
            assert [event.seq for event in await store.events.read(stream, 0, 100)] == list(range(1, count + 1))
        assert await store.routing.backlog() == 40


async def test_the_end_of_a_lane_head_is_notified_without_waiting_for_a_poll(server: Server, schema: str) -> None:
    """Settle and claim are two transactions here: the claim under way cannot see the lane's new head."""
    async with opened(server, schema) as store:
        await store.contracts.put(Contract("c", parse_address("handler:h"), ordered=True), None)
        queue = (await store.contracts.queues())[0].id
        await store.events.append([new_event("t", stream="s") for _ in range(2)] + [new_event("t")])
        await route_all(store, queue)
        owner = await store.owners.register()
        claims = {claim.event.stream: claim for claim in (await store.deliveries.claim(request(owner))).claims}
        topics: list[str] = []
        store.on_change(topics.append)
        await store.deliveries.settle(owner, [delivered(claims.pop("s"))])
        assert topics == ["deliveries"]
        assert len((await store.deliveries.claim(request(owner))).claims) == 1
        await store.deliveries.settle(owner, [delivered(claim) for claim in claims.values()])
        assert topics == ["deliveries"], "a delivery without a lane frees no other"


async def test_a_contract_cache_misses_no_change_while_many_change_contracts(server: Server, schema: str) -> None:
    async with opened(server, schema) as store, opened(server, schema) as reading:
        registry = Registry(reading.contracts, POLICIES)
        changing = True

        async def change(number: int) -> None:
            for turn in range(25):
                contract = Contract(f"c{number}", parse_address(f"handler:h{turn}"), created_at_ms=1)
                await store.contracts.put(contract, None)

        async def keep_up() -> None:
            while changing:
                await registry.refresh()

        keeping = asyncio.create_task(keep_up())
        await asyncio.gather(*(change(number) for number in range(8)))
        changing = False
        await keeping
        await registry.refresh()
        kept = {contract.id: registry.contract(contract.id) for contract in await store.contracts.all()}
        assert kept == {f"c{n}": Contract(f"c{n}", parse_address("handler:h24"), created_at_ms=1) for n in range(8)}

"""Daemons whose own clocks are wrong, differ or jump: what is due is due by the database's clock."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.address import KINDS, parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.delivery import Retry, Settlement, settle
from holdfast.domain.event import new_event
from holdfast.domain.retry import POLICIES
from holdfast.ports import SystemChance, SystemClock, no_probe
from holdfast.store.postgres.clock import ServerClock
from holdfast.store.postgres.place import parse_place
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.roles.deliveries import Claimed, ClaimRequest, Served
from holdfast.store.roles.maintenance import Retention
from holdfast.store.roles.owners import Actor, Owner
from holdfast.store.roles.routing import Plan, RouteTarget
from holdfast.testing.clock import ManualClock
from postgres import Server, opened

pytest_plugins = ("postgres",)

DAY_S = 24 * 3600
WRONG = pytest.mark.parametrize("skew_s", [3 * DAY_S, -3 * DAY_S], ids=["3 days ahead", "3 days behind"])


class WrongClock(SystemClock):
    """The machine's clock, set wrong; its boot clock nobody can set."""

    def __init__(self, skew_s: float) -> None:
        self.skew_s = skew_s

    def now_ms(self) -> int:
        return super().now_ms() + round(self.skew_s * 1000)


@contextlib.asynccontextmanager
async def opened_by(clock: WrongClock, server: Server, schema: str) -> AsyncIterator[PostgresStore]:
    """A store as a daemon on such a machine has it."""
    place = parse_place(server.url(schema))
    store = PostgresStore(place, ServerClock(clock, own=False), lambda: None, SystemChance(), True, no_probe)
    try:
        yield store
    finally:
        await store.close()


async def route(store: PostgresStore) -> None:
    await store.contracts.put(Contract("c", parse_address("handler:h")), None)
    (queue,) = await store.contracts.queues()
    async with store.routing.batch(500) as batch:
        target = RouteTarget(queue.id, "handler:h", "handler", None)
        due = batch.due_at_ms
        assert await batch.commit([Plan(event.n, (target,), due.get(event.n, 0)) for event in batch.events])


async def claim(store: PostgresStore, owner: Owner) -> Claimed:
    leases, room = dict.fromkeys(KINDS, 30_000), dict.fromkeys(KINDS, 100)
    return await store.deliveries.claim(
        ClaimRequest(owner.id, Served(frozenset(KINDS), frozenset()), 100, leases, {}, room)
    )


@WRONG
async def test_deliveries_routed_with_a_wrong_clock_are_due_for_all(server: Server, schema: str, skew_s: float) -> None:
    async with opened_by(WrongClock(skew_s), server, schema) as wrong, opened(server, schema) as right:
        await wrong.events.append([new_event("t")])
        await route(wrong)
        assert len((await claim(right, await right.owners.register())).claims) == 1


@WRONG
async def test_an_attempt_is_recorded_with_the_databases_times(server: Server, schema: str, skew_s: float) -> None:
    clock = WrongClock(skew_s)
    async with opened_by(clock, server, schema) as wrong:
        owner = await wrong.owners.register()
        await wrong.events.append([new_event("t")])
        await route(wrong)
        (held,) = (await claim(wrong, owner)).claims
        began_ms = clock.now_ms()
        outcome = settle(0, Retry("503"), POLICIES["webhook"], clock.now_ms(), 0.0)
        settlement = Settlement(held, outcome, started_at_ms=began_ms, outcome="retry")
        assert await wrong.deliveries.settle(owner, [settlement]) == set()
        (attempt,) = await wrong.operator.attempts(held.delivery.id)
        assert abs(attempt.started_at_ms - SystemClock().now_ms()) < 60_000
        assert attempt.started_at_ms <= attempt.ended_at_ms + 1000


@WRONG
async def test_a_delayed_event_is_neither_early_nor_late(server: Server, schema: str, skew_s: float) -> None:
    clock = WrongClock(skew_s)
    async with opened_by(clock, server, schema) as store:
        now = datetime.now(UTC)
        await store.events.append([new_event("t", at=now + timedelta(hours=1)), new_event("t", at=now)])
        await route(store)
        claimed = await claim(store, await store.owners.register())
        assert len(claimed.claims) == 1
        claimed = await claim(store, await store.owners.register())
        assert claimed.claims == []
        assert claimed.next_due_ms is not None
        assert abs(claimed.next_due_ms - clock.now_ms() - 3_600_000) < 60_000


@WRONG
async def test_a_failed_delivery_is_retried_on_time_though_the_clock_jumps(
    server: Server, schema: str, skew_s: float
) -> None:
    """A whole runtime on such a machine. While the delivery waits for its second try, the clock is corrected."""
    clock, tries = WrongClock(skew_s), list[float]()
    failed, done = asyncio.Event(), asyncio.Event()

    async def handler(event: object) -> None:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) == 1:
            failed.set()
            raise RuntimeError("not yet")
        done.set()

    async with opened_by(clock, server, schema) as store:
        contract = Contract("h", parse_address("handler:h"), source="programmatic")
        runtime = Runtime(store, load_config(None), None, handlers={"h": handler}, contracts=[contract], clock=clock)
        await runtime.start()
        await store.events.append([new_event("t")])
        async with asyncio.timeout(60):
            await failed.wait()
            clock.skew_s = -skew_s
            await done.wait()
        assert tries[1] - tries[0] > 0.9  # the schedule's first delay is one second, and jitter only adds
        await runtime.stop()


async def test_a_clock_far_ahead_removes_nothing_before_its_time(server: Server, schema: str) -> None:
    async with opened_by(WrongClock(400 * DAY_S), server, schema) as store:
        await store.events.append([new_event("t", dedup_key="k")])
        await route(store)
        month = 30 * DAY_S * 1000
        by = Actor("node-0001", "retention")
        assert set((await store.maintenance.prune(Retention(month, month, month, month), 1000, by)).values()) == {0}


async def test_a_handler_served_with_a_clock_far_behind_is_not_ended_by_others(server: Server, schema: str) -> None:
    async with opened_by(WrongClock(-3 * DAY_S), server, schema) as behind, opened(server, schema) as right:
        await behind.events.append([new_event("t")])
        await route(behind)
        await behind.deliveries.record_served(["handler:h"])
        owner = await right.owners.register()
        assert await right.deliveries.dead_letter_unserved(owner, 3_600_000, 0) == 0


async def test_status_counts_by_its_own_clock(server: Server, schema: str) -> None:
    clock = WrongClock(3 * DAY_S)
    async with opened_by(clock, server, schema) as store:
        await store.events.append([new_event("t")])
        await route(store)
        figures = await store.operator.figures()
        assert abs(figures.oldest_pending_ms - clock.now_ms()) < 60_000


def test_a_slow_answer_does_not_set_the_clock_back() -> None:
    """As for one who was stopped between the question and the answer."""
    local = ManualClock()
    clock = ServerClock(local, own=False)
    ahead_ms = 5_000_000
    clock.learn(local.boot_ms() + ahead_ms, local.boot_ms())
    asked_ms, server_ms = local.boot_ms(), local.boot_ms() + ahead_ms
    local.advance(7)
    clock.learn(server_ms, asked_ms)
    assert clock.now_ms() == local.boot_ms() + ahead_ms
    asked_ms, server_ms = local.boot_ms(), local.boot_ms() + ahead_ms + 60_000
    local.advance(7)
    clock.learn(server_ms, asked_ms)
    assert clock.now_ms() == server_ms, "the database's clock was set meanwhile: that outweighs the doubt"
    clock.learn(local.boot_ms() + ahead_ms + 60_000, local.boot_ms())
    assert clock.now_ms() == local.boot_ms() + ahead_ms + 60_000, "and a prompt answer removes it"

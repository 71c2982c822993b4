"""Breakers and rate limits: a receiver that is down gets no requests, and delays no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from engine_harness import EngineHarness, Script
from holdfast.domain.breaker import FAILURES_MAX, STREAK_MAX
from holdfast.domain.delivery import Claim, Dead, Delivered, Outcome, Retry
from holdfast.domain.event import new_event
from holdfast.domain.states import Reason
from holdfast.egress.gatekeeper import BreakerChange, Gatekeeper
from holdfast.operations.system_events import SystemEvents
from holdfast.store.roles.gates import Reservation

BAD, GOOD = "https://bad.example/hook", "https://good.example/hook"


class Gated(EngineHarness):
    """A harness whose engine asks a gatekeeper, and whose deliverer speaks for two receivers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.script = Script("https")
        self.down = {BAD}
        self.script.answer = lambda claim: self.answer(claim)
        self.changes: list[BreakerChange] = []
        self.gatekeeper: Gatekeeper  # made with the engine, when the owner is known

    def answer(self, claim: Claim) -> Outcome:
        return Retry("503") if claim.delivery.address in self.down else Delivered()

    async def note(self, change: BreakerChange) -> None:
        self.changes.append(change)

    def new_engine(self, **options: Any) -> Any:
        self.gatekeeper = Gatekeeper(self.store.gates, self.owner, self.clock, capacity=20, on_change=self.note)
        return super().new_engine(gatekeeper=self.gatekeeper, capacity=20, **options)

    def seen(self, address: str) -> int:
        return sum(claim.delivery.address == address for claim in self.script.seen)

    async def turn(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.gatekeeper.tick()
        await self.drain()
        await self.gatekeeper.tick()


@pytest.fixture
async def harness(tmp_path: Path) -> Gated:
    harness = Gated(tmp_path)
    await harness.start()
    return harness


async def test_a_breaker_opens_after_several_failures_in_a_row(harness: Gated) -> None:
    await harness.contract("bad", BAD, concurrency=1)
    await harness.stream(20)
    await harness.turn(0)
    for _ in range(3):
        await harness.turn(0.1)
    assert harness.seen(BAD) == FAILURES_MAX
    assert [change.opened for change in harness.changes] == [True]
    assert {row.attempts for row in await harness.rows()} == {0, 1}  # no attempt of another delivery was used up


async def test_after_the_cooldown_one_probe_is_sent(harness: Gated) -> None:
    await harness.contract("bad", BAD)
    await harness.stream(20)
    await harness.turn(0)
    before = harness.seen(BAD)
    await harness.turn(3)
    assert harness.seen(BAD) == before + 1
    await harness.turn(3)  # it failed: now it takes longer
    assert harness.seen(BAD) == before + 1


async def test_occasional_failures_of_a_fast_receiver_open_no_breaker(harness: Gated) -> None:
    await harness.contract("bad", BAD)
    for _ in range(200):
        for outcome in (Delivered(), *[Retry("503")] * (FAILURES_MAX + 3)):
            harness.gatekeeper.ended(BAD, outcome)
        harness.clock.advance(0.01)
        assert not harness.gatekeeper.blocked()
    for _ in range(STREAK_MAX):
        harness.gatekeeper.ended(BAD, Retry("503"))
    assert harness.gatekeeper.blocked() == {BAD}


async def test_a_success_that_comes_in_time_keeps_the_breaker_closed(
    harness: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    for outcome in (*[Retry("503")] * FAILURES_MAX, Delivered()):
        harness.gatekeeper.ended(BAD, outcome)
    await harness.gatekeeper.tick()
    assert harness.changes == []
    assert not caplog.records


async def test_the_number_of_requests_to_a_recovered_receiver_doubles(harness: Gated) -> None:
    await harness.contract("bad", BAD)
    await harness.stream(40)
    await harness.turn(0)
    harness.down.clear()
    for _ in range(60):
        await harness.turn(1)
    assert set(await harness.states()) == {"delivered"}
    assert [change.opened for change in harness.changes] == [True, False]
    assert await harness.store.gates.open() == []


async def test_all_open_breakers_are_read_however_many_there_are(harness: Gated) -> None:
    addresses = {f"https://{number}.example/" for number in range(5)}
    for address in addresses:
        await harness.store.gates.trip(address, 60_000)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("holdfast.egress.gatekeeper", "holdfast.store.sqlite.gates"):
            patch.setattr(f"{module}.PAGE_MAX", 2)
        await harness.gatekeeper.tick()
        assert harness.gatekeeper.blocked() == addresses
        await harness.store.gates.close("https://3.example/")  # as another process would
        await harness.gatekeeper.tick()
        assert harness.gatekeeper.blocked() == addresses - {"https://3.example/"}


async def test_a_receiver_that_rejects_events_opens_no_breaker(harness: Gated) -> None:
    await harness.contract("bad", BAD)
    harness.script.answer = lambda claim: Dead(Reason.REJECTED, "400")
    await harness.stream(20)
    await harness.turn(0)
    assert set(await harness.states()) == {"dead"}
    assert harness.changes == []


async def test_a_receiver_that_is_down_delays_no_other(harness: Gated) -> None:
    await harness.contract("bad", BAD)
    await harness.contract("good", GOOD)
    await harness.stream(30)
    await harness.turn(0)
    assert harness.seen(GOOD) == 30


async def test_failing_receivers_hold_at_most_half_of_the_capacity(harness: Gated) -> None:
    never = asyncio.Event()
    harness.script.answer = lambda claim: never.wait() if claim.delivery.address != GOOD else Delivered()
    for number in range(10):
        address = f"https://slow{number}.example/"
        await harness.contract(f"slow{number}", address, pattern="slow.*", concurrency=4)
        harness.gatekeeper.ended(address, Retry("timed out"))
    await harness.contract("good", GOOD, pattern="good.*")
    await harness.publish(*[new_event("slow.x") for _ in range(10)])
    for _ in range(4):
        await harness.step()
    assert harness.engine.in_flight < 20
    await harness.publish(*[new_event("good.x") for _ in range(5)])
    for _ in range(4):
        await harness.step()
    assert harness.seen(GOOD) == 5
    await harness.engine.stop(0)


async def test_an_open_breaker_holds_for_other_processes_too(harness: Gated) -> None:
    await harness.contract("bad", BAD)
    await harness.store.gates.trip(BAD, 10_000)
    await harness.gatekeeper.tick()
    await harness.stream(5)
    await harness.drain()
    assert harness.seen(BAD) == 0
    await harness.store.gates.close(BAD)
    for _ in range(10):
        await harness.turn(1)
    assert harness.seen(BAD) > 0


async def test_a_rate_limited_address_holds_no_more_claims_than_it_can_send_soon(harness: Gated) -> None:
    harness.down.clear()
    await harness.contract("slow", GOOD, rate="1/h")
    await harness.stream(10)
    await harness.step()
    await harness.step()
    assert harness.engine.in_flight == 1  # one waits for its slot; the others can be claimed by any process
    assert sum(row.leased for row in await harness.rows()) == 1
    await harness.engine.stop(0)
    assert {row.starts for row in await harness.rows()} == {0}


async def test_slots_follow_each_other_at_the_interval(harness: Gated) -> None:
    harness.clock.advance(0)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        if isinstance(seconds, float):  # a whole zero is another task giving way
            waits.append(round(seconds, 3))
            harness.clock.advance(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.egress.gatekeeper.asyncio.sleep", sleep)
        for _ in range(3):
            await harness.gatekeeper.wait_for_slot(GOOD, 100_000)
    assert waits == [0, 0.1, 0.1]


async def test_a_slot_far_ahead_is_reserved_only_when_it_is_near(
    harness: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        if isinstance(seconds, float):  # a whole zero is another task giving way
            waits.append(round(seconds, 3))
            harness.clock.advance(seconds)

    monkeypatch.setattr("holdfast.egress.gatekeeper.asyncio.sleep", sleep)
    await harness.gatekeeper.wait_for_slot(GOOD, 10_000_000)
    await harness.gatekeeper.wait_for_slot(GOOD, 10_000_000)
    assert waits == [0, 5, 3, 2], "a process that dies while it waits holds at most two seconds"


async def test_a_request_that_missed_its_slot_takes_another(harness: Gated) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        if isinstance(seconds, float):
            waits.append(round(seconds, 3))
            harness.clock.advance(seconds + (0.5 if len(waits) == 1 else 0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.egress.gatekeeper.asyncio.sleep", sleep)
        await harness.gatekeeper.wait_for_slot(GOOD, 100_000)
    assert waits == [0, 0]


async def test_a_request_whose_slot_time_is_uncertain_takes_another(
    harness: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    took_s, asked = [0.3, 0.002, 0.002], 0
    reserve = harness.store.gates.reserve

    async def slowly(address: str, interval_us: int, ahead_us: int) -> Reservation:
        nonlocal asked
        harness.clock.advance(took_s[min(asked, len(took_s) - 1)])
        asked += 1
        return await reserve(address, interval_us, ahead_us)

    monkeypatch.setattr(harness.store.gates, "reserve", slowly)
    monkeypatch.setattr("holdfast.egress.gatekeeper.asyncio.sleep", _passing(harness))
    await harness.gatekeeper.wait_for_slot(GOOD, 100_000)
    assert asked == 2, "the first slot could have been anywhere within a third of a second"
    took_s[:] = [0.3]
    await harness.gatekeeper.wait_for_slot(GOOD, 100_000)
    assert 4 <= asked <= 12, "a store that is slow for good is not asked for ever"


def _passing(harness: Gated) -> Callable[[float], Awaitable[None]]:
    async def sleep(seconds: float) -> None:
        harness.clock.advance(seconds)

    return sleep


async def test_after_days_of_failure_the_contract_is_disabled_and_its_deliveries_are_kept(harness: Gated) -> None:
    system_events = SystemEvents(harness.store, harness.registry, harness.clock, 5 * 86_400_000)
    harness.gatekeeper._on_change = system_events.breaker_changed
    await harness.contract("bad", BAD, attempts=1000)
    await harness.stream(1)
    for _ in range(130):
        await harness.turn(3600)
    assert not (await harness.store.contracts.all())
    (row,) = await harness.rows()
    assert (row.state, row.waits_for) == ("pending", "contract disabled")
    types = {event.type for event in (await harness.store.events.find(_all(), None, 100)).items}
    assert {"holdfast.breaker.opened", "holdfast.contract.disabled"} <= types


async def test_a_token_in_a_url_is_in_no_system_event_and_no_log(
    harness: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    token = "bot123456789:AAcanary-of-a-chat"
    url = f"https://chat.example/hooks/{token}/send?key=canary"
    system_events = SystemEvents(harness.store, harness.registry, harness.clock)
    harness.engine = harness.new_engine(delivery_dead=system_events.delivery_dead)
    harness.gatekeeper._on_change = system_events.breaker_changed
    harness.down = {url}
    await harness.contract("chat", url, attempts=FAILURES_MAX + 1, pattern="t.*")
    await harness.contract("news", GOOD, pattern="holdfast.*")
    await harness.stream(1)
    for _ in range(8):
        await harness.turn(60)
    news = [event for event in (await harness.store.events.find(_all(), None, 100)).items if event.source == "holdfast"]
    assert {event.type for event in news} >= {"holdfast.breaker.opened", "holdfast.delivery.dead"}
    assert {event.payload["address"] for event in news} == {"https://chat.example/hooks/…/send?…"}
    assert "breaker open" in caplog.text
    assert "canary" not in caplog.text + repr([(event.payload, event.properties) for event in news])


async def test_a_dead_delivery_makes_an_event_for_subscribers_but_none_about_that_event(harness: Gated) -> None:
    system_events = SystemEvents(harness.store, harness.registry, harness.clock)
    harness.engine = harness.new_engine(delivery_dead=system_events.delivery_dead)
    harness.script.answer = lambda claim: Dead(Reason.REJECTED, "400")
    await harness.contract("bad", BAD, pattern="t.*")
    await harness.stream(1)
    await harness.drain()
    assert len((await harness.store.events.find(_all(), None, 100)).items) == 1  # no contract matches it
    await harness.contract("alarm", GOOD, pattern="holdfast.delivery.dead")
    await harness.stream(1)
    await harness.drain()
    await harness.route()
    await harness.drain()
    await harness.route()
    events = (await harness.store.events.find(_all(), None, 100)).items
    assert sorted(event.type for event in events) == ["holdfast.delivery.dead", "t.x", "t.x"]
    news = next(event for event in events if event.source == "holdfast")
    assert (news.properties["contract"], news.payload["error"]) == ("bad", "400")


def _all() -> Any:
    from holdfast.store.roles.events import EventFilter

    return EventFilter()

"""Breakers and rates: a dead receiver is left alone, a slow one is not hurried, and nobody else waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.breaker import FAILURES_MAX, STREAK_MAX
from holdfast.domain.delivery import Claim, Dead, Delivered, Outcome, Retry
from holdfast.domain.event import new_event
from holdfast.domain.states import Reason
from holdfast.egress.gatekeeper import BreakerNews, Gatekeeper
from holdfast.operations.system_events import Newsroom
from holdfast.store.base import Moment
from house import Bench, Script

BAD, GOOD = "https://bad.example/hook", "https://good.example/hook"


class Gated(Bench):
    """A bench whose engine asks a gatekeeper, and whose deliverer speaks for two receivers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.script = Script("https")
        self.down = {BAD}
        self.script.answer = lambda claim: self.answer(claim)
        self.told: list[BreakerNews] = []
        self.gatekeeper: Gatekeeper  # made with the engine, when the owner is known

    def answer(self, claim: Claim) -> Outcome:
        return Retry("503") if claim.delivery.address in self.down else Delivered()

    async def tell(self, news: BreakerNews) -> None:
        self.told.append(news)

    def new_engine(self, **options: Any) -> Any:
        self.gatekeeper = Gatekeeper(self.store.gates, self.owner, self.clock, capacity=20, tell=self.tell)
        return super().new_engine(gatekeeper=self.gatekeeper, capacity=20, **options)

    def seen(self, address: str) -> int:
        return sum(claim.delivery.address == address for claim in self.script.seen)

    async def turn(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.gatekeeper.tick()
        await self.drain()
        await self.gatekeeper.tick()


@pytest.fixture
async def bench(tmp_path: Path) -> Gated:
    bench = Gated(tmp_path)
    await bench.start()
    return bench


async def test_after_some_failures_in_a_row_an_address_is_left_alone(bench: Gated) -> None:
    await bench.contract("bad", BAD, concurrency=1)
    await bench.stream(20)
    await bench.turn(0)
    for _ in range(3):
        await bench.turn(0.1)
    assert bench.seen(BAD) == FAILURES_MAX
    assert [news.opened for news in bench.told] == [True]
    assert {row.attempts for row in await bench.rows()} == {0, 1}  # nobody else's attempts were spent


async def test_when_its_time_is_over_one_request_is_let_through(bench: Gated) -> None:
    await bench.contract("bad", BAD)
    await bench.stream(20)
    await bench.turn(0)
    before = bench.seen(BAD)
    await bench.turn(3)
    assert bench.seen(BAD) == before + 1
    await bench.turn(3)  # it failed: now it takes longer
    assert bench.seen(BAD) == before + 1


async def test_a_fast_receiver_that_fails_now_and_then_is_not_left_alone(bench: Gated) -> None:
    await bench.contract("bad", BAD)
    for _ in range(200):
        for outcome in (Delivered(), *[Retry("503")] * (FAILURES_MAX + 3)):
            bench.gatekeeper.ended(BAD, outcome)
        bench.clock.advance(0.01)
        assert not bench.gatekeeper.shut()
    for _ in range(STREAK_MAX):
        bench.gatekeeper.ended(BAD, Retry("503"))
    assert bench.gatekeeper.shut() == {BAD}


async def test_a_success_that_comes_in_time_keeps_the_breaker_closed(
    bench: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    for outcome in (*[Retry("503")] * FAILURES_MAX, Delivered()):
        bench.gatekeeper.ended(BAD, outcome)
    await bench.gatekeeper.tick()
    assert bench.told == []
    assert not caplog.records


async def test_a_receiver_that_came_back_is_given_more_and_more(bench: Gated) -> None:
    await bench.contract("bad", BAD)
    await bench.stream(40)
    await bench.turn(0)
    bench.down.clear()
    for _ in range(60):
        await bench.turn(1)
    assert set(await bench.states()) == {"delivered"}
    assert [news.opened for news in bench.told] == [True, False]
    assert await bench.store.gates.open() == []


async def test_however_many_breakers_are_open_none_is_taken_for_closed(bench: Gated) -> None:
    addresses = {f"https://{number}.example/" for number in range(5)}
    for address in addresses:
        await bench.store.gates.trip(address, 60_000)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("holdfast.egress.gatekeeper", "holdfast.store.sqlite.gates"):
            patch.setattr(f"{module}.PAGE_MAX", 2)
        await bench.gatekeeper.tick()
        assert bench.gatekeeper.shut() == addresses
        await bench.store.gates.close("https://3.example/")  # as another process would
        await bench.gatekeeper.tick()
        assert bench.gatekeeper.shut() == addresses - {"https://3.example/"}


async def test_a_receiver_that_refuses_is_alive(bench: Gated) -> None:
    await bench.contract("bad", BAD)
    bench.script.answer = lambda claim: Dead(Reason.REJECTED, "400")
    await bench.stream(20)
    await bench.turn(0)
    assert set(await bench.states()) == {"dead"}
    assert bench.told == []


async def test_a_dead_receiver_costs_nobody_else_a_turn(bench: Gated) -> None:
    await bench.contract("bad", BAD)
    await bench.contract("good", GOOD)
    await bench.stream(30)
    await bench.turn(0)
    assert bench.seen(GOOD) == 30


async def test_failing_receivers_together_hold_half_of_what_can_be_held(bench: Gated) -> None:
    never = asyncio.Event()
    bench.script.answer = lambda claim: never.wait() if claim.delivery.address != GOOD else Delivered()
    for number in range(10):
        address = f"https://slow{number}.example/"
        await bench.contract(f"slow{number}", address, pattern="slow.*", concurrency=4)
        bench.gatekeeper.ended(address, Retry("timed out"))
    await bench.contract("good", GOOD, pattern="good.*")
    await bench.publish(*[new_event("slow.x") for _ in range(10)])
    for _ in range(4):
        await bench.step()
    assert bench.engine.in_flight < 20
    await bench.publish(*[new_event("good.x") for _ in range(5)])
    for _ in range(4):
        await bench.step()
    assert bench.seen(GOOD) == 5
    await bench.engine.stop(0)


async def test_another_process_keeps_to_an_open_breaker(bench: Gated) -> None:
    await bench.contract("bad", BAD)
    await bench.store.gates.trip(BAD, 10_000)
    await bench.gatekeeper.tick()
    await bench.stream(5)
    await bench.drain()
    assert bench.seen(BAD) == 0
    await bench.store.gates.close(BAD)
    for _ in range(10):
        await bench.turn(1)
    assert bench.seen(BAD) > 0


async def test_a_rate_holds_no_more_than_it_can_soon_send(bench: Gated) -> None:
    bench.down.clear()
    await bench.contract("slow", GOOD, rate="1/h")
    await bench.stream(10)
    await bench.step()
    await bench.step()
    assert bench.engine.in_flight == 1  # one waits for its moment; the others stay where any process can claim them
    assert sum(row.leased for row in await bench.rows()) == 1
    await bench.engine.stop(0)
    assert {row.starts for row in await bench.rows()} == {0}


async def test_moments_are_taken_in_turn(bench: Gated) -> None:
    bench.clock.advance(0)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        if isinstance(seconds, float):  # a whole zero is another task giving way
            waits.append(round(seconds, 3))
            bench.clock.advance(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.egress.gatekeeper.asyncio.sleep", sleep)
        for _ in range(3):
            await bench.gatekeeper.turn(GOOD, 100_000)
    assert waits == [0, 0.1, 0.1]


async def test_a_moment_far_ahead_is_not_reserved_until_it_is_near(
    bench: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        if isinstance(seconds, float):  # a whole zero is another task giving way
            waits.append(round(seconds, 3))
            bench.clock.advance(seconds)

    monkeypatch.setattr("holdfast.egress.gatekeeper.asyncio.sleep", sleep)
    await bench.gatekeeper.turn(GOOD, 10_000_000)
    await bench.gatekeeper.turn(GOOD, 10_000_000)
    assert waits == [0, 5, 3, 2], "a process that dies while it waits holds at most two seconds"


async def test_a_request_that_missed_its_moment_takes_another(bench: Gated) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        if isinstance(seconds, float):
            waits.append(round(seconds, 3))
            bench.clock.advance(seconds + (0.5 if len(waits) == 1 else 0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.egress.gatekeeper.asyncio.sleep", sleep)
        await bench.gatekeeper.turn(GOOD, 100_000)
    assert waits == [0, 0]


async def test_who_was_told_his_moment_too_late_to_be_sure_of_it_takes_another(
    bench: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    took_s, asked = [0.3, 0.002, 0.002], 0
    reserve = bench.store.gates.reserve

    async def slowly(address: str, interval_us: int, ahead_us: int) -> Moment:
        nonlocal asked
        bench.clock.advance(took_s[min(asked, len(took_s) - 1)])
        asked += 1
        return await reserve(address, interval_us, ahead_us)

    monkeypatch.setattr(bench.store.gates, "reserve", slowly)
    monkeypatch.setattr("holdfast.egress.gatekeeper.asyncio.sleep", _passing(bench))
    await bench.gatekeeper.turn(GOOD, 100_000)
    assert asked == 2, "the first answer could have been meant for any moment of a third of a second"
    took_s[:] = [0.3]
    await bench.gatekeeper.turn(GOOD, 100_000)
    assert 4 <= asked <= 12, "a store that is slow for good is not asked for ever"


def _passing(bench: Gated) -> Callable[[float], Awaitable[None]]:
    async def sleep(seconds: float) -> None:
        bench.clock.advance(seconds)

    return sleep


async def test_after_days_of_failure_the_contract_is_disabled_and_what_waits_is_kept(bench: Gated) -> None:
    bench.gatekeeper._tell = Newsroom(bench.store, bench.registry, bench.clock, 5 * 86_400_000).breaker
    await bench.contract("bad", BAD, attempts=1000)
    await bench.stream(1)
    for _ in range(130):
        await bench.turn(3600)
    assert not (await bench.store.contracts.all())
    (row,) = await bench.rows()
    assert (row.state, row.waits_for) == ("pending", "contract disabled")
    types = {event.type for event in (await bench.store.events.find(_all(), None, 100)).items}
    assert {"holdfast.breaker.opened", "holdfast.contract.disabled"} <= types


async def test_a_token_in_a_url_is_in_no_news_and_no_log(bench: Gated, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    token = "bot123456789:AAcanary-of-a-chat"
    url = f"https://chat.example/hooks/{token}/send?key=canary"
    room = Newsroom(bench.store, bench.registry, bench.clock)
    bench.engine = bench.new_engine(obituary=room.obituary)
    bench.gatekeeper._tell = room.breaker
    bench.down = {url}
    await bench.contract("chat", url, attempts=FAILURES_MAX + 1, pattern="t.*")
    await bench.contract("news", GOOD, pattern="holdfast.*")
    await bench.stream(1)
    for _ in range(8):
        await bench.turn(60)
    news = [event for event in (await bench.store.events.find(_all(), None, 100)).items if event.source == "holdfast"]
    assert {event.type for event in news} >= {"holdfast.breaker.opened", "holdfast.delivery.dead"}
    assert {event.payload["address"] for event in news} == {"https://chat.example/hooks/…/send?…"}
    assert "breaker open" in caplog.text
    assert "canary" not in caplog.text + repr([(event.payload, event.properties) for event in news])


async def test_a_death_is_told_to_who_asked_and_no_news_is_made_of_news(bench: Gated) -> None:
    room = Newsroom(bench.store, bench.registry, bench.clock)
    bench.engine = bench.new_engine(obituary=room.obituary)
    bench.script.answer = lambda claim: Dead(Reason.REJECTED, "400")
    await bench.contract("bad", BAD, pattern="t.*")
    await bench.stream(1)
    await bench.drain()
    assert len((await bench.store.events.find(_all(), None, 100)).items) == 1  # nobody asked
    await bench.contract("alarm", GOOD, pattern="holdfast.delivery.dead")
    await bench.stream(1)
    await bench.drain()
    await bench.route()
    await bench.drain()
    await bench.route()
    events = (await bench.store.events.find(_all(), None, 100)).items
    assert sorted(event.type for event in events) == ["holdfast.delivery.dead", "t.x", "t.x"]
    news = next(event for event in events if event.source == "holdfast")
    assert (news.properties["contract"], news.payload["error"]) == ("bad", "400")


def _all() -> Any:
    from holdfast.store.base import EventFilter

    return EventFilter()

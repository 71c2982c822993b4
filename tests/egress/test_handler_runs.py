"""Handlers that take too long, never end, or end in unusual ways. Real store, real threads, virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from engine_harness import EngineHarness
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.errors import Reject
from holdfast.domain.event import new_event
from holdfast.egress.handler.deliverer import HandlerDeliverer
from holdfast.egress.handler.threads import HandlerThreads
from holdfast.store.roles.events import EventFilter

HANGS_S = 60.0


class Handlers(EngineHarness):
    """A harness whose deliverer calls real functions."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.handlers = HandlerDeliverer(HandlerThreads(shared_max=2))
        self.release = threading.Event()

    def new_engine(self, **options: Any) -> Any:
        self.script = self.handlers  # type: ignore[assignment]
        return super().new_engine(**options)

    async def add(self, name: str, function: Callable[..., Any], **options: Any) -> None:
        self.handlers.add(name, function)
        contract = Contract(name, parse_address(f"handler:{name}"), type_criterion=Criterion(match=name), **options)
        await self.store.contracts.put(contract, None)
        await self.registry.refresh()

    async def emit(self, name: str, count: int = 1, stream: str | None = None) -> None:
        await self.publish(*[new_event(name, {"i": i}, stream=stream) for i in range(count)])

    async def until(self, done: Callable[[], bool]) -> None:
        """Tick until something is true; a minute is for what hangs."""
        async with asyncio.timeout(HANGS_S):
            while not done():
                await self.engine.tick()
                await asyncio.sleep(0.001)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Handlers]:
    harness = Handlers(tmp_path)
    await harness.start()
    yield harness
    harness.release.set()
    await harness.engine.stop(1.0)
    await harness.store.close()


async def test_a_plain_function_past_its_timeout_keeps_its_lane_and_its_success_counts(
    harness: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    began: list[int] = []

    def slow(event: Any) -> None:
        began.append(event.seq)
        harness.release.wait(HANGS_S)

    await harness.add("slow", slow, ordered=True, attempts=3, timeout_s=30)
    await harness.emit("slow", 2, stream="s")
    await harness.until(lambda: began == [1])
    for _ in range(5):
        harness.clock.advance(31)
        await harness.engine.renewal.tick()
        await harness.engine.deadlines.tick()
        await harness.engine.tick()
    assert began == [1]
    assert caplog.text.count("has run longer than its timeout of 30 s") == 1
    assert "handler:slow" in caplog.text
    harness.release.set()
    await harness.until(lambda: harness.engine.delivered == 2)
    assert [(row.state, row.attempts) for row in await harness.rows()] == [("delivered", 1), ("delivered", 1)]
    assert began == [1, 2]


async def test_a_plain_function_that_fails_after_its_timeout_is_one_failed_attempt(harness: Handlers) -> None:
    def slow(event: Any) -> None:
        harness.release.wait(HANGS_S)
        raise ValueError("too late and wrong")

    await harness.add("slow", slow, timeout_s=30)
    await harness.emit("slow")
    await harness.until(lambda: harness.engine.in_flight == 1)
    harness.clock.advance(31)
    await harness.engine.deadlines.tick()
    harness.release.set()
    await harness.until(lambda: harness.engine.failed == 1)
    (row,) = await harness.rows()
    assert (row.state, row.attempts, row.last_error) == ("pending", 1, "ValueError: too late and wrong")


async def test_functions_that_never_return_do_not_stop_another_handler(harness: Handlers) -> None:
    running: list[int] = []
    good: list[int] = []

    def stuck(event: Any) -> None:
        running.append(1)
        harness.release.wait(HANGS_S)

    def fine(event: Any) -> None:
        good.append(event.payload["i"])

    await harness.add("stuck", stuck)
    await harness.add("fine", fine)
    await harness.emit("stuck", 20)
    await harness.until(lambda: len(running) == 3)  # one of its own and the two that are shared
    await harness.emit("fine", 5)
    await harness.until(lambda: len(good) == 5)
    assert len(running) == 3


async def test_an_attempt_that_waits_for_a_thread_has_not_begun(harness: Handlers) -> None:
    calls: list[int] = []

    def stuck(event: Any) -> None:
        calls.append(1)
        harness.release.wait(HANGS_S)

    await harness.add("stuck", stuck, timeout_s=5, attempts=1)
    await harness.emit("stuck", 8)
    await harness.until(lambda: len(calls) == 3)
    harness.clock.advance(20)
    await harness.engine.deadlines.tick()
    await harness.step()
    assert {row.state for row in await harness.rows()} == {"pending"}
    harness.release.set()
    await harness.until(lambda: harness.engine.delivered == 8)
    assert harness.engine.failed == 0


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration("x")])
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "coroutine"])
async def test_a_handler_cannot_end_the_process(
    harness: Handlers, caplog: pytest.LogCaptureFixture, raised: BaseException, plain: bool
) -> None:
    def leave(event: Any) -> None:
        raise raised

    async def leave_too(event: Any) -> None:
        raise raised

    await harness.add("leave", leave if plain else leave_too)
    await harness.emit("leave")
    await harness.until(lambda: harness.engine.failed == 1)
    (row,) = await harness.rows()
    assert row.state == "pending"
    assert type(raised).__name__ in str(row.last_error)
    assert "handler:leave" in caplog.text
    assert type(raised).__name__ in caplog.text


async def test_a_handler_that_raises_cancelled_error_itself_fails_and_its_queue_continues(harness: Handlers) -> None:
    seen: list[int] = []

    async def confused(event: Any) -> None:
        seen.append(event.payload["i"])
        if len(seen) == 1:
            raise asyncio.CancelledError

    await harness.add("confused", confused, concurrency=1)
    await harness.emit("confused", 3)
    await harness.until(lambda: harness.engine.delivered == 2 and harness.engine.failed == 1)
    assert "CancelledError" in str([row.last_error for row in await harness.rows()])


async def test_a_coroutine_that_ignores_its_cancellation_is_named_and_its_success_counts(
    harness: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    cancelled: list[int] = []
    done = asyncio.Event()

    async def stubborn(event: Any) -> None:
        while not done.is_set():
            try:
                await done.wait()
            except asyncio.CancelledError:
                cancelled.append(1)

    await harness.add("stubborn", stubborn, timeout_s=5)
    await harness.emit("stubborn", 2)
    await harness.step()
    for seconds in (6, 6, 6):
        harness.clock.advance(seconds)
        await harness.engine.deadlines.tick()
        await harness.step()
    assert "handler:stubborn" in caplog.text
    assert "ignores its cancellation" in caplog.text
    assert harness.engine.in_flight == 2
    done.set()
    await harness.until(lambda: harness.engine.delivered == 2)
    await harness.emit("stubborn")  # its worker is as good as before
    await harness.until(lambda: harness.engine.delivered == 3)


async def test_a_stop_waits_for_its_grace_time_and_returns_what_still_runs(tmp_path: Path) -> None:
    harness = Handlers(tmp_path)
    await harness.start()
    never = asyncio.Event()

    def stuck(event: Any) -> None:
        harness.release.wait(HANGS_S)

    async def stubborn(event: Any) -> None:
        while not never.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await never.wait()

    async def obedient(event: Any) -> None:
        await never.wait()

    for function in (stuck, stubborn, obedient):
        await harness.add(function.__name__, function)
        await harness.emit(function.__name__)
    await harness.until(lambda: len(harness.engine.running()) == 3)
    async with asyncio.timeout(HANGS_S):
        running = await harness.engine.stop(0.0)
    assert sorted(claim.delivery.address for claim in running) == ["handler:stubborn", "handler:stuck"]
    rows = {row.address: row for row in await harness.rows()}
    assert not rows["handler:obedient"].leased
    assert rows["handler:stuck"].leased, "a running attempt keeps its lease, so that no other process runs it too"
    assert {row.starts for row in rows.values()} == {0}, "a stop is not a crash"
    harness.release.set()
    never.set()
    await asyncio.sleep(0)
    await harness.store.close()


async def test_leases_that_ended_while_the_process_was_suspended_stay_its_own(harness: Handlers) -> None:
    """As when a handler blocks the event loop for longer than a lease."""
    began: list[int] = []
    go_on = asyncio.Event()

    async def waits(event: Any) -> None:
        began.append(1)
        await go_on.wait()

    await harness.add("waits", waits, timeout_s=600)
    await harness.emit("waits")
    await harness.until(lambda: len(began) == 1)
    harness.clock.advance(40)
    assert await harness.store.deliveries.reclaim(harness.engine.held_ids) == 0
    await harness.engine.tick()
    await harness.engine.renewal.tick()
    go_on.set()
    await harness.until(lambda: harness.engine.delivered == 1)
    assert len(began) == 1


async def test_a_lease_that_no_process_holds_is_freed_when_it_ends(harness: Handlers) -> None:
    async def waits(event: Any) -> None:
        await asyncio.sleep(HANGS_S)

    await harness.add("waits", waits)
    await harness.emit("waits")
    await harness.step()
    harness.clock.advance(40)
    assert await harness.store.deliveries.reclaim([]) == 1


async def test_every_failed_attempt_is_one_line_in_the_log(harness: Handlers, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def ship(event: Any) -> None:
        {}["nokey"]

    await harness.add("ship", ship, attempts=3)
    await harness.emit("ship")
    for number in range(1, 4):
        await harness.until(lambda number=number: harness.engine.failed == number)
        harness.clock.advance(120)
    lines = [record for record in caplog.records if record.name == "holdfast.delivery"]
    assert [record.levelname for record in lines] == ["WARNING", "WARNING", "ERROR"]
    (event,) = (await harness.store.events.find(EventFilter(), None, 10)).items
    for number, record in enumerate(lines, start=1):
        text = record.getMessage()
        assert f"handler:ship: event {event.id} (ship), attempt {number} of 3 failed: KeyError: 'nokey'" in text
        assert record.exc_info is not None
        assert "nokey" in caplog.text
    assert "Next attempt in" in lines[0].getMessage()
    assert "is now a dead letter (exhausted)" in lines[2].getMessage()
    assert "Traceback" in caplog.text


async def test_a_storm_of_identical_failures_is_throttled_with_a_count(
    harness: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    async def ship(event: Any) -> None:
        raise Reject("no")

    await harness.add("ship", ship)
    await harness.emit("ship", 200)
    await harness.until(lambda: harness.engine.failed == 200)
    lines = [record.getMessage() for record in caplog.records if record.name == "holdfast.delivery"]
    assert len(lines) == 20
    assert "more like this are only counted" in lines[-1]

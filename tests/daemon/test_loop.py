"""The loop: an exception in one duty ends neither the loop nor another duty."""

from __future__ import annotations

import asyncio

from holdfast.daemon.loop import Loop
from holdfast.domain.errors import StoreFailed
from holdfast.testing.clock import SeededChance


class Counting:
    def __init__(self, name: str, fail: int = 0, error: Exception | None = None) -> None:
        self.name, self.count, self._fail, self._error = name, 0, fail, error or RuntimeError("bad tick")
        self.reached = asyncio.Event()

    async def tick(self) -> float | None:
        self.count += 1
        if self.count <= self._fail:
            raise self._error
        self.reached.set()
        return None


async def test_a_failing_duty_runs_again_and_is_reported(caplog) -> None:
    loop = Loop(SeededChance(1))
    duty = Counting("shaky", fail=2)
    loop.add(duty)
    async with asyncio.timeout(60):
        await duty.reached.wait()
    await asyncio.sleep(0)
    assert loop.health() == {"shaky": "ok"}
    assert "shaky failed" in caplog.text
    await loop.stop()


async def test_a_failing_duty_does_not_disturb_another() -> None:
    loop = Loop(SeededChance(1))
    bad, good = Counting("bad", fail=10**9), Counting("good")
    loop.add(bad)
    loop.add(good)
    async with asyncio.timeout(60):
        await good.reached.wait()
    assert loop.health()["bad"] == "RuntimeError: bad tick"
    assert loop.health()["good"] == "ok"
    await loop.stop()


async def test_waking_a_duty_ends_its_wait() -> None:
    loop = Loop(SeededChance(1))
    duty = Counting("sleepy")
    wake = loop.add(duty, poll_s=3600)
    async with asyncio.timeout(60):
        await duty.reached.wait()
        duty.reached.clear()
        wake()
        await duty.reached.wait()
    assert duty.count == 2
    await loop.stop()


async def test_a_store_that_failed_is_reported_as_fatal() -> None:
    loop = Loop(SeededChance(1))
    loop.add(Counting("store", fail=10**9, error=StoreFailed("fsync failed")))
    async with asyncio.timeout(60):
        assert str(await loop.fatal) == "fsync failed"
    await loop.stop()

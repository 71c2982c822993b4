"""Who only delivers goes by the contracts of now, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine_harness import EngineHarness
from holdfast.routing.registry import Refreshing


async def test_a_process_that_does_not_route_reads_changes_of_others(tmp_path: Path) -> None:
    harness = await EngineHarness(tmp_path).start()
    await harness.contract(attempts=3)
    known = await harness.store.contracts.get("c")
    assert known is not None
    await harness.store.contracts.put(replace(known, attempts=7), "rotated")  # as another process would
    assert harness.registry.terms_of("c", "handler").policy.attempts == 3
    await Refreshing(harness.registry).tick()
    assert harness.registry.terms_of("c", "handler").policy.attempts == 7
    assert (await harness.registry.private("c")).secrets == ("rotated",)


async def test_a_secret_that_was_rotated_out_signs_no_longer_than_it_was_given(tmp_path: Path) -> None:
    harness = await EngineHarness(tmp_path).start()
    await harness.contract()
    known = await harness.store.contracts.get("c")
    assert known is not None
    await harness.store.contracts.put(known, "first")
    await harness.store.contracts.rotate("c", "second", 3000)
    await harness.registry.refresh()
    now_ms = harness.clock.now_ms()
    assert (await harness.registry.private("c", now_ms)).secrets == ("second", "first")
    assert (await harness.registry.private("c", now_ms + 2999)).secrets == ("second", "first")
    harness.clock.advance(3)
    assert (await harness.registry.private("c", harness.clock.now_ms())).secrets == ("second",)

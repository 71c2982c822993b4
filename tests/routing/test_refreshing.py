"""Who only delivers goes by the contracts of now, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdfast.routing.registry import Refreshing
from house import Bench


async def test_a_process_that_routes_nothing_notices_what_another_changed(tmp_path: Path) -> None:
    bench = await Bench(tmp_path).start()
    await bench.contract(attempts=3)
    known = await bench.store.contracts.get("c")
    assert known is not None
    await bench.store.contracts.put(replace(known, attempts=7), "rotated")  # as another process would
    assert bench.registry.terms_of("c", "handler").policy.attempts == 3
    await Refreshing(bench.registry).tick()
    assert bench.registry.terms_of("c", "handler").policy.attempts == 7
    assert (await bench.registry.private("c")).secrets == ("rotated",)


async def test_a_secret_that_was_rotated_out_signs_no_longer_than_it_was_given(tmp_path: Path) -> None:
    bench = await Bench(tmp_path).start()
    await bench.contract()
    known = await bench.store.contracts.get("c")
    assert known is not None
    await bench.store.contracts.put(known, "first")
    await bench.store.contracts.rotate("c", "second", 3000)
    await bench.registry.refresh()
    now_ms = bench.clock.now_ms()
    assert (await bench.registry.private("c", now_ms)).secrets == ("second", "first")
    assert (await bench.registry.private("c", now_ms + 2999)).secrets == ("second", "first")
    bench.clock.advance(3)
    assert (await bench.registry.private("c", bench.clock.now_ms())).secrets == ("second",)

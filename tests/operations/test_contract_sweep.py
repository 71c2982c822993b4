"""Contracts whose time is over, and a configuration that another daemon replaced."""

from __future__ import annotations

from pathlib import Path

from holdfast.domain.event import new_event
from holdfast.operations.contract_sweep import ContractSweep
from holdfast.store.base import Registered
from house import Bench


async def test_an_expired_contract_is_retired_once_nothing_waits_to_be_routed(tmp_path: Path) -> None:
    bench = await Bench(tmp_path).start()
    await bench.contract(expires_at_ms=bench.clock.now_ms() + 10_000)
    sweep = ContractSweep(bench.store.contracts, bench.store.routing, bench.clock, None)
    await bench.store.events.append([new_event("t.in_time")])
    bench.clock.advance(120)
    await sweep.tick()
    assert len(await bench.store.contracts.all()) == 1
    await bench.route()  # accepted in time, routed late: it still belongs to the contract
    await sweep.tick()
    assert await bench.store.contracts.all() == []
    await bench.drain()
    assert await bench.states() == ["delivered"]
    await bench.publish(new_event("t.too_late"))
    assert len(await bench.rows()) == 1


async def test_a_foreign_configuration_is_noticed_and_forgotten(tmp_path: Path) -> None:
    bench = await Bench(tmp_path).start()
    none: list[Registered] = []
    await bench.store.contracts.adopt("ours", none)
    sweep = ContractSweep(bench.store.contracts, bench.store.routing, bench.clock, "ours")
    await sweep.tick()
    assert sweep.warning is None
    await bench.store.contracts.adopt("theirs", none)
    await sweep.tick()
    assert "another configuration file" in str(sweep.warning)
    await bench.store.contracts.adopt("ours", none)
    await sweep.tick()
    assert sweep.warning is None

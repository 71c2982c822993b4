"""Expired contracts, and a configuration that another daemon replaced."""

from __future__ import annotations

from pathlib import Path

from engine_harness import EngineHarness
from holdfast.domain.event import new_event
from holdfast.operations.duties.contract_sweep import ContractSweep
from holdfast.store.roles.contracts import ContractInput


async def test_an_expired_contract_is_retired_once_nothing_waits_to_be_routed(tmp_path: Path) -> None:
    harness = await EngineHarness(tmp_path).start()
    await harness.contract(expires_at_ms=harness.clock.now_ms() + 10_000)
    sweep = ContractSweep(harness.store.contracts, harness.store.routing, harness.clock, None)
    await harness.store.events.append([new_event("t.in_time")])
    harness.clock.advance(120)
    await sweep.tick()
    assert len(await harness.store.contracts.all()) == 1
    await harness.route()  # accepted in time, routed late: it still belongs to the contract
    await sweep.tick()
    assert await harness.store.contracts.all() == []
    await harness.drain()
    assert await harness.states() == ["delivered"]
    await harness.publish(new_event("t.too_late"))
    assert len(await harness.rows()) == 1


async def test_a_foreign_configuration_is_noticed_and_forgotten(tmp_path: Path) -> None:
    harness = await EngineHarness(tmp_path).start()
    none: list[ContractInput] = []
    await harness.store.contracts.adopt("ours", none)
    sweep = ContractSweep(harness.store.contracts, harness.store.routing, harness.clock, "ours")
    await sweep.tick()
    assert sweep.warning is None
    await harness.store.contracts.adopt("theirs", none)
    await sweep.tick()
    assert "another configuration file" in str(sweep.warning)
    await harness.store.contracts.adopt("ours", none)
    await sweep.tick()
    assert sweep.warning is None

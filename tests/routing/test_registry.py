"""The registry: the contracts of one version, brought up to date by what changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine_harness import EngineHarness
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.event import Event
from holdfast.domain.retry import POLICIES
from holdfast.routing.index import ContractIndex
from holdfast.routing.registry import Registry
from holdfast.store.roles.contracts import ContractChange, ContractInput

MANY = 40


@pytest.fixture
async def harness(tmp_path: Path) -> EngineHarness:
    harness = await EngineHarness(tmp_path).start()
    for i in range(MANY):
        await harness.store.contracts.put(contract(i), None)
    await harness.registry.refresh()
    return harness


def contract(i: int, **more: Any) -> Contract:
    wanted = Criterion(f"order.{i}")
    return Contract(f"c{i:02}", parse_address(f"handler:h{i}"), type_criterion=wanted, created_at_ms=1, **more)


def addresses(harness: EngineHarness, type: str) -> list[str]:
    event = Event(1, "e", None, 1, "app", type, "", harness.clock.now_ms(), "{}", "null")
    return [target.address for target in harness.registry.targets(event)]


async def test_targets_stand_in_the_order_of_the_contracts_ids(harness: EngineHarness) -> None:
    for id in ("zz", "aa", "Z"):
        await harness.store.contracts.put(Contract(id, parse_address(f"handler:{id}")), None)
    await harness.registry.refresh()
    assert addresses(harness, "order.7") == ["handler:Z", "handler:aa", "handler:h7", "handler:zz"]


async def test_a_change_of_one_contract_leaves_the_others_where_they_are(harness: EngineHarness, monkeypatch) -> None:
    changed: list[str] = []
    put = ContractIndex.put
    monkeypatch.setattr(ContractIndex, "put", lambda self, new: changed.append(new.id) or put(self, new))
    index = harness.registry._index
    await harness.store.contracts.put(replace(contract(7), address=parse_address("handler:moved")), None)
    await harness.registry.refresh()
    assert changed == ["c07"]
    assert harness.registry._index is index
    assert addresses(harness, "order.7") == ["handler:moved"]
    assert addresses(harness, "order.8") == ["handler:h8"]


async def test_a_contract_that_is_new_changed_disabled_enabled_or_removed_is_seen_at_the_next_look(harness) -> None:
    contracts = harness.store.contracts
    for change, found in (
        (contracts.put(contract(99), None), ["handler:h99"]),
        (contracts.put(replace(contract(99), type_criterion=Criterion("other")), None), []),
        (contracts.put(contract(99), None), ["handler:h99"]),
        (contracts.set_active("c99", False), []),
        (contracts.set_active("c99", True), ["handler:h99"]),
        (contracts.remove("c99"), []),
    ):
        await change
        await harness.registry.refresh()
        assert addresses(harness, "order.99") == found
    assert addresses(harness, "order.1") == ["handler:h1"]


async def test_terms_and_trust_follow_the_contract(harness: EngineHarness) -> None:
    registry = harness.registry
    await harness.store.contracts.put(contract(3, attempts=2, source="config"), None)
    await registry.refresh()
    assert registry.terms_of("c03", "handler").policy.attempts == 2
    assert (registry.is_trusted("c03"), registry.is_trusted("c04"), registry.is_trusted("none")) == (True, False, False)
    await harness.store.contracts.remove("c03")
    await registry.refresh()
    assert registry.terms_of("c03", "handler").policy == POLICIES["hook"]
    assert not registry.is_trusted("c03")


async def test_unchanged_contracts_are_not_read_again(harness: EngineHarness) -> None:
    before = {each.id: each for each in await harness.store.contracts.all()}
    await harness.store.contracts.put(contract(5, attempts=9), None)
    after = {each.id: each for each in await harness.store.contracts.all()}
    assert [id for id in before if after[id] is not before[id]] == ["c05"]
    assert after["c05"].attempts == 9


async def test_a_refresh_reads_only_changes(harness: EngineHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    contracts, read = harness.store.contracts, []
    changed = contracts.changed

    async def telling(since: int) -> list[ContractChange]:
        read.append(sorted(change.id for change in await changed(since)))
        return await changed(since)

    async def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("all of them were read")

    monkeypatch.setattr(contracts, "changed", telling)
    monkeypatch.setattr(contracts, "all", never)
    monkeypatch.setattr(contracts, "queues", never)
    kept = await harness.registry.private("c02")
    await contracts.rotate("c01", "whsec_bmV3", 0)
    await contracts.remove("c03")
    await harness.registry.refresh()
    assert read == [["c01", "c03"]]
    assert (await harness.registry.private("c01")).secrets == ("whsec_bmV3",)
    assert await harness.registry.private("c02") is kept
    assert harness.registry.contract("c03") is None


async def test_a_change_between_two_looks_is_read_too(harness: EngineHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    contracts = harness.store.contracts
    changed = contracts.changed

    async def disturbed(since: int) -> list[ContractChange]:
        found = await changed(since)
        if harness.registry.contract("late") is None and await contracts.get("late") is None:
            await contracts.put(Contract("late", parse_address("handler:late")), None)
        return found

    monkeypatch.setattr(contracts, "changed", disturbed)
    await contracts.set_active("c05", False)
    await harness.registry.refresh()
    assert harness.registry.version == await contracts.version()
    assert addresses(harness, "order.5") == ["handler:late"]


async def test_the_contracts_of_a_restored_store_are_read_again(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.store.contracts.remove("c05")
    harness.registry.version += 100
    await harness.registry.refresh()
    assert addresses(harness, "order.5") == []
    assert harness.registry.version == await harness.store.contracts.version()


@pytest.mark.parametrize("seed", range(12))
async def test_a_registry_updated_by_changes_equals_a_new_one(tmp_path: Path, seed: int) -> None:
    harness, chance = await EngineHarness(tmp_path).start(), Random(seed)
    for i in range(chance.choice((0, 3, 25))):
        await harness.store.contracts.put(any_contract(f"c{i}", harness, chance), None)
    for _ in range(30):
        for _ in range(chance.choice((1, 1, 1, 4))):
            await change(harness, chance)
        if chance.random() < 0.3:
            harness.clock.advance(60)
            harness.registry.forget_private()  # as the sweep does: time alone changes no version
        await harness.registry.refresh()
        fresh = Registry(harness.store.contracts, POLICIES)
        await fresh.refresh()
        assert await shown(harness.registry, harness) == await shown(fresh, harness)


async def change(harness: EngineHarness, chance: Random) -> None:
    """One change of one contract, whichever."""
    contracts, id = harness.store.contracts, f"c{chance.randrange(30)}"
    match chance.choice(("put", "put", "again", "remove", "disable", "enable", "expire", "rotate", "adopt")):
        case "put":
            secret = chance.choice((None, "whsec_b25l"))
            await contracts.put(any_contract(id, harness, chance), secret, headers={"X-A": id})
        case "again":
            if known := await contracts.get(id):
                await contracts.put(known, None, keep=True)
        case "remove":
            await contracts.remove(id)
        case "disable":
            await contracts.set_active(id, False)
        case "enable":
            await contracts.set_active(id, True)
        case "expire":
            await contracts.retire(id)
        case "rotate":
            await contracts.rotate(id, f"whsec_{chance.choice(('b25l', 'dHdv'))}", chance.choice((0, 1000)))
        case "adopt":
            ids = chance.sample(range(5), chance.randrange(3))
            wanted = [ContractInput(replace(any_contract(f"f{i}", harness, chance), source="config")) for i in ids]
            await contracts.adopt(str(chance.random()), wanted)


def any_contract(id: str, harness: EngineHarness, chance: Random) -> Contract:
    criteria = (None, Criterion("a.b"), Criterion(("a.b", "c.d")), Criterion(pattern="a.*"), Criterion(pattern="*.d"))
    return Contract(
        id,
        parse_address(chance.choice(("handler:h", "handler:k", "https://example.com/x", "session:s"))),
        type_criterion=chance.choice(criteria),
        properties=chance.choice(({}, {"p": Criterion("1")}, {"p": Criterion(pattern="*2")}, {"q": Criterion()})),
        attempts=chance.choice((None, 3)),
        expires_at_ms=chance.choice((None, harness.clock.now_ms() + 30_000)),
        created_at_ms=1,
    )


async def shown(registry: Registry, harness: EngineHarness) -> dict[str, Any]:
    """All that a registry can tell."""
    ids = [*(f"c{i}" for i in range(30)), *(f"f{i}" for i in range(5))]
    events = [
        Event(1, "e", None, 1, "app", type, "", harness.clock.now_ms(), json.dumps(properties), "null")
        for type in ("a.b", "a.x", "c.d", "other")
        for properties in ({}, {"p": "1"}, {"p": "12"}, {"q": True}, {"p": ["1", "2"], "q": 0})
    ]
    return {
        "version": registry.version,
        "size": len(registry._index),
        "contracts": {id: registry.contract(id) for id in ids},
        "terms": {id: registry.terms_of(id, "handler") for id in ids},
        "private": {id: await registry.private(id) for id in ids},
        "targets": [registry.targets(event) for event in events],
    }


async def test_a_url_without_a_rate_of_its_own_has_the_houses(harness: EngineHarness) -> None:
    for id, rate in (("own", "5/s"), ("none", None)):
        await harness.store.contracts.put(Contract(id, parse_address(f"https://{id}.example/"), rate=rate), None)
    paced = Registry(harness.store.contracts, POLICIES, interval_us=100_000)
    await paced.refresh()
    found = {id: paced.terms_of(id, kind).interval_us for id, kind in (("own", "https"), ("none", "https"))}
    assert found == {"own": 240_000, "none": 100_000}
    assert paced.terms_of(None, "https").interval_us == 100_000  # a direct address
    assert paced.terms_of("c01", "handler").interval_us == paced.terms_of(None, "handler").interval_us == 0


async def test_a_match_that_was_remembered_ends_with_its_contract(harness: EngineHarness) -> None:
    assert addresses(harness, "order.7") == addresses(harness, "order.7") == ["handler:h7"]
    await harness.store.contracts.put(Contract("extra", parse_address("handler:extra")), None)
    await harness.registry.refresh()
    assert addresses(harness, "order.7") == ["handler:h7", "handler:extra"]
    await harness.store.contracts.remove("extra")
    await harness.registry.refresh()
    assert addresses(harness, "order.7") == ["handler:h7"]


async def test_a_contract_that_ends_matches_by_the_time_of_each_event(harness: EngineHarness) -> None:
    ends_ms = harness.clock.now_ms() + 1000
    await harness.store.contracts.put(Contract("short", parse_address("handler:short"), expires_at_ms=ends_ms), None)
    await harness.registry.refresh()
    assert addresses(harness, "order.7") == ["handler:h7", "handler:short"]
    harness.clock.advance(2.0)
    assert addresses(harness, "order.7") == ["handler:h7"]


async def test_the_lane_of_an_ordered_contract_is_that_of_each_event(harness: EngineHarness) -> None:
    await harness.store.contracts.put(Contract("kept", parse_address("handler:kept"), ordered=True), None)
    await harness.registry.refresh()
    now_ms = harness.clock.now_ms()
    events = [Event(n, f"e{n}", f"s{n}", 1, "app", "other", "", now_ms, "{}", "null") for n in (1, 2)]
    assert [harness.registry.targets(event)[0].lane for event in events] == ["kept s1", "kept s2"]

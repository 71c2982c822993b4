"""The registry: the contracts of one version, brought up to date by what changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.event import Event
from holdfast.domain.retry import POLICIES
from holdfast.routing.index import Index
from house import Bench

MANY = 40


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    bench = await Bench(tmp_path).start()
    for i in range(MANY):
        await bench.store.contracts.put(contract(i), None)
    await bench.registry.refresh()
    return bench


def contract(i: int, **more: Any) -> Contract:
    wanted = Criterion(f"order.{i}")
    return Contract(f"c{i:02}", parse_address(f"handler:h{i}"), type_criterion=wanted, created_at_ms=1, **more)


def addresses(bench: Bench, type: str) -> list[str]:
    event = Event(1, "e", None, 1, "app", type, "", bench.clock.now_ms(), "{}", "null")
    return [target.address for target in bench.registry.targets(event)]


async def test_targets_stand_in_the_order_of_the_contracts_ids(bench: Bench) -> None:
    for id in ("zz", "aa", "Z"):
        await bench.store.contracts.put(Contract(id, parse_address(f"handler:{id}")), None)
    await bench.registry.refresh()
    assert addresses(bench, "order.7") == ["handler:Z", "handler:aa", "handler:h7", "handler:zz"]


async def test_a_change_of_one_contract_leaves_the_others_where_they_are(bench: Bench, monkeypatch) -> None:
    changed: list[str] = []
    put = Index.put
    monkeypatch.setattr(Index, "put", lambda self, new: changed.append(new.id) or put(self, new))
    index = bench.registry._index
    await bench.store.contracts.put(replace(contract(7), address=parse_address("handler:moved")), None)
    await bench.registry.refresh()
    assert changed == ["c07"]
    assert bench.registry._index is index
    assert addresses(bench, "order.7") == ["handler:moved"]
    assert addresses(bench, "order.8") == ["handler:h8"]


async def test_a_contract_that_is_new_changed_disabled_enabled_or_removed_is_seen_at_the_next_look(bench) -> None:
    contracts = bench.store.contracts
    for change, found in (
        (contracts.put(contract(99), None), ["handler:h99"]),
        (contracts.put(replace(contract(99), type_criterion=Criterion("other")), None), []),
        (contracts.put(contract(99), None), ["handler:h99"]),
        (contracts.set_active("c99", False), []),
        (contracts.set_active("c99", True), ["handler:h99"]),
        (contracts.remove("c99"), []),
    ):
        await change
        await bench.registry.refresh()
        assert addresses(bench, "order.99") == found
    assert addresses(bench, "order.1") == ["handler:h1"]


async def test_terms_and_trust_follow_the_contract(bench: Bench) -> None:
    registry = bench.registry
    await bench.store.contracts.put(contract(3, attempts=2, source="config"), None)
    await registry.refresh()
    assert registry.terms_of("c03", "handler").policy.attempts == 2
    assert (registry.is_trusted("c03"), registry.is_trusted("c04"), registry.is_trusted("none")) == (True, False, False)
    await bench.store.contracts.remove("c03")
    await registry.refresh()
    assert registry.terms_of("c03", "handler").policy == POLICIES["hook"]
    assert not registry.is_trusted("c03")


async def test_contracts_that_did_not_change_are_not_read_anew(bench: Bench) -> None:
    before = {each.id: each for each in await bench.store.contracts.all()}
    await bench.store.contracts.put(contract(5, attempts=9), None)
    after = {each.id: each for each in await bench.store.contracts.all()}
    assert [id for id in before if after[id] is not before[id]] == ["c05"]
    assert after["c05"].attempts == 9

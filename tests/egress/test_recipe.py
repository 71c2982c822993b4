"""The recipe "Add an address kind" in CONTRIBUTING.md: its two blocks, as they stand there, add a kind that works."""

from __future__ import annotations

import asyncio
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import holdfast.domain.address as address_module
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.address import KINDS, parse_address
from holdfast.domain.delivery import Claim, Outcome, Retry
from holdfast.domain.errors import BadInput
from holdfast.domain.event import new_event
from holdfast.egress.deliverer import Attempt
from holdfast.operations.answers.encode import encode
from holdfast.store.open import open_store
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow
from holdfast.store.roles.store import Store

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = re.split(r"^## ", PAGE.partition("## Add an address kind\n")[2], flags=re.MULTILINE)[0]
DELIVERER, ENTRY = (textwrap.dedent(block) for block in re.findall(r"^ +```python\n(.*?)^ +```", SECTION, re.S | re.M))


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of step 1 and the entry of step 2."""
    module = ModuleType("holdfast.egress.echo")
    exec(compile(DELIVERER, "echo.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    kind = eval(ENTRY, vars(address_module))
    monkeypatch.setitem(KINDS, kind.name, kind)
    return module


async def _deliveries(store: Store) -> list[DeliveryRow]:
    return (await store.operator.deliveries(DeliveryFilter(), None, 100)).items[::-1]


async def _until_settled(store: Store, count: int) -> list[DeliveryRow]:
    async with asyncio.timeout(60):
        while True:
            rows = await _deliveries(store)
            if len(rows) == count and all(row.state != "pending" for row in rows):
                return rows
            await asyncio.sleep(0.01)


def test_an_address_of_the_new_kind_is_parsed(echo: ModuleType) -> None:
    assert parse_address("echo:hall").kind == "echo"
    with pytest.raises(BadInput, match="echo:NAME"):
        parse_address("echo:two words")


async def test_an_event_reaches_the_new_kind_through_the_real_engine_and_store(
    echo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[str] = []
    failures = [Retry("busy", after_s=0.0)]

    async def deliver(self: Any, claim: Claim, attempt: Attempt) -> Outcome:
        outcome = await real(self, claim, attempt)
        received.extend(self.received[-1:])
        return failures.pop() if failures else outcome

    real = echo.EchoDeliverer.deliver
    monkeypatch.setattr(echo.EchoDeliverer, "deliver", deliver)
    store = open_store(f"sqlite:///{tmp_path}/h.db", keep=True)
    runtime = Runtime(store, load_config(None), None)
    await runtime.start()
    try:
        added = await runtime.operations.contracts.add({"id": "c", "target": {"echo": "hall"}, "type_criterion": "t.x"})
        assert encode(added)["target"]["echo"] == "hall"
        (contract,) = [item for item in await store.contracts.all() if item.id == "c"]
        assert contract.address.text == "echo:hall"
        await store.events.append([new_event("t.x", {"n": 1}), new_event("t.direct", to="echo:direct")])
        rows = await _until_settled(store, 2)
    finally:
        await runtime.stop()
    assert {(row.address, row.state) for row in rows} == {("echo:hall", "delivered"), ("echo:direct", "delivered")}
    assert sorted(received) == sorted([rows[0].event_id, rows[1].event_id, received[0]]), "one was tried twice"


async def test_a_contract_of_a_kind_that_was_removed_waits_and_stops_no_other(
    echo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: Any, claim: Claim, attempt: Attempt) -> Outcome:
        return Retry("busy", after_s=0.0)

    monkeypatch.setattr(echo.EchoDeliverer, "deliver", fail)
    store = open_store(f"sqlite:///{tmp_path}/h.db", keep=True)
    runtime = Runtime(store, load_config(None), None)
    await runtime.start()
    await runtime.operations.contracts.add({"id": "c", "target": {"echo": "hall"}, "type_criterion": "t.x"})
    await store.events.append([new_event("t.x"), new_event("t.direct", to="echo:direct")])
    async with asyncio.timeout(60):
        while len(rows := await _deliveries(store)) < 2 or not all(row.attempts for row in rows):
            await asyncio.sleep(0.01)
    await runtime.stop()
    monkeypatch.delitem(KINDS, "echo")
    received: list[str] = []
    store = open_store(f"sqlite:///{tmp_path}/h.db", keep=True)
    runtime = Runtime(store, load_config(None), None, handlers={"h": lambda event: received.append(event.id)})
    await runtime.start()
    try:
        await runtime.operations.contracts.add({"id": "d", "target": {"handler": "h"}, "type_criterion": "t.x"})
        await store.events.append([new_event("t.x")])
        async with asyncio.timeout(60):
            while not received:
                await asyncio.sleep(0.01)
        assert {row.state for row in await _deliveries(store) if row.address.startswith("echo:")} == {"pending"}
    finally:
        await runtime.stop()

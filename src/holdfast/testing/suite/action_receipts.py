"""Receipts of operators' actions: each is written with the change, on the chain of the process that made it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.delivery import Retry
from holdfast.domain.json_value import JsonObject
from holdfast.store.roles.contracts import ContractInput
from holdfast.store.rows import contract_digest
from holdfast.testing.suite.harness import Harness, StoreSuite


async def actions(harness: Harness) -> list[JsonObject]:
    """What the receipts record beside transitions of deliveries, without time and actor."""
    found: list[JsonObject] = []
    for link in await harness.links():
        assert link.chain == harness.owner.chain
        for line in link.leaves.split(b"\n"):
            leaf = json.loads(line)
            if "action" in leaf:
                assert (leaf.pop("at"), leaf.pop("actor")) == (link.at_ms, "ann")
                found.append(leaf)
    return found


def contract(id: str, to: str = "handler:h") -> Contract:
    return Contract(id=id, address=parse_address(to))


def some(*names: str) -> JsonObject:
    return {"count": len(names), "first": list(names)}


def names(found: Sequence[JsonObject]) -> list[object]:
    return [leaf["action"] for leaf in found]


class ActionReceiptsSuite(StoreSuite):
    async def test_changes_of_a_contract(self, harness: Harness) -> None:
        contracts, by = harness.store.contracts, harness.owner.acting("ann")
        await contracts.put(contract("c"), "secret-canary", by=by)
        await contracts.set_active("c", False, by=by)
        assert not await contracts.set_active("c", False, by=by)
        await contracts.set_active("c", True, by=by)
        await contracts.rotate("c", "other-canary", 0, by=by)
        await contracts.retire("c", by=by)
        await contracts.remove("c", by=by)
        assert not await contracts.remove("c", by=by)
        found = await actions(harness)
        assert names(found) == [
            "contract.put", "contract.disable", "contract.enable", "contract.rotate", "contract.expire",
            "contract.remove",
        ]  # fmt: skip
        assert {leaf["contract"] for leaf in found} == {"c"}
        assert "canary" not in repr(await harness.links())
        assert await harness.faults() == []

    async def test_a_contract_without_an_actor_leaves_no_receipt(self, harness: Harness) -> None:
        await harness.store.contracts.put(contract("c"), None)
        assert await harness.links() == []

    async def test_a_new_configuration(self, harness: Harness) -> None:
        contracts, by = harness.store.contracts, harness.owner.acting("ann")
        first = [ContractInput(replace(contract(id), source="config")) for id in ("a", "b")]
        assert await contracts.adopt("d1", first, by=by)
        assert not await contracts.adopt("d1", first, by=by)
        assert await contracts.adopt("d2", first[1:], by=by)
        one, two = await actions(harness)
        digests = {given.contract.id: contract_digest(given.contract) for given in first}
        assert (one["digest"], one["contracts"]) == ("d1", digests)
        assert (two["digest"], two["contracts"]) == ("d2", {"a": None})
        assert str(two["version"]) > str(one["version"])
        assert await harness.faults() == []

    async def test_contracts_of_code_leave_a_receipt_when_they_change(self, harness: Harness) -> None:
        contracts, by = harness.store.contracts, harness.owner.acting("ann")
        given = [replace(contract("c", f"handler:{to}"), source="programmatic", registered_by="shop") for to in "aab"]
        for one in given:
            await contracts.register({"shop"}, [one], alone=True, by=by)
        first, second = await actions(harness)
        assert first["contracts"] == {"c": contract_digest(given[0])}
        assert second["contracts"] == {"c": contract_digest(given[2])}
        await contracts.register({"shop"}, [], alone=True, by=by)
        assert (await actions(harness))[-1]["contracts"] == {"c": None}
        assert await harness.faults() == []

    async def test_a_receipt_names_every_contract_however_many_there_are(self, harness: Harness) -> None:
        contracts, by = harness.store.contracts, harness.owner.acting("ann")
        many = [contract(f"c{number}") for number in range(450)]
        await contracts.register({"shop"}, many, alone=True, by=by)
        (link,) = await harness.links()
        named = [leaf["contracts"] for leaf in await actions(harness)]
        assert {id for part in named if isinstance(part, dict) for id in part} == {one.id for one in many}
        assert link.count == 3
        assert await harness.faults() == []

    async def test_tokens(self, harness: Harness) -> None:
        by = harness.owner.acting("ann")
        await harness.store.tokens.add("tok_1", "name", "read", "hash-canary", by=by)
        assert await harness.store.tokens.revoke("tok_1", by=by)
        assert not await harness.store.tokens.revoke("tok_1", by=by)
        assert await actions(harness) == [
            {"action": "token.create", "token": "tok_1", "scope": "read"},
            {"action": "token.revoke", "token": "tok_1"},
        ]
        assert "canary" not in repr(await harness.links())

    async def test_pauses(self, harness: Harness) -> None:
        operator, by = harness.store.operator, harness.owner.acting("ann")
        url = "https://example.com/hook?token=canary"
        for _ in range(2):
            await operator.pause("address", url, by=by)
        for _ in range(2):
            await operator.resume("address", url, by=by)
        await operator.pause("lane", "l", by=by)
        found = await actions(harness)
        assert names(found) == ["pause", "resume", "pause"]
        assert [leaf["scope"] for leaf in found] == ["address", "address", "lane"]
        assert "canary" not in repr(await harness.links())  # a path may hold a token

    async def test_a_retry_of_a_waiting_delivery(self, harness: Harness) -> None:
        await harness.contract()
        ids = [await harness.send() for _ in range(2)]
        await harness.settle_all([(claim, Retry("503")) for claim in await harness.claim()])
        by = harness.owner.acting("ann")
        assert await harness.store.operator.make_due([*ids, 77], by=by) == ids
        assert await harness.store.operator.make_due([77], by=by) == []
        assert await actions(harness) == [{"action": "retry", "deliveries": [[ids[0], ids[1]]]}]
        assert await harness.faults() == []

    async def test_events_that_are_routed_again(self, harness: Harness) -> None:
        event = await harness.emit()
        await harness.route()
        by = harness.owner.acting("ann")
        assert await harness.store.events.reroute([event.id], by=by) == 1
        await harness.store.events.reroute(["evt_none"], by=by)
        assert await actions(harness) == [{"action": "route", "events": some(event.id)}]

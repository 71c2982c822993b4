"""Explain: the deliveries of an event, and why each other contract did not match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine_harness import EngineHarness
from holdfast.config.config import load_config
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.delivery import Dead, Delivered, Retry
from holdfast.domain.errors import BadInput, NotFound
from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.states import Reason
from holdfast.net.guard import Guard
from holdfast.operations.answers.encode import encode
from holdfast.operations.context import OperationsContext
from holdfast.operations.explain import WHY_MAX
from holdfast.operations.verbs import Operations


@pytest.fixture
async def harness(tmp_path: Path) -> EngineHarness:
    return await EngineHarness(tmp_path).start()


@pytest.fixture
def ops(harness: EngineHarness) -> Operations:
    config = load_config(None)
    return Operations(
        OperationsContext(
            harness.store, harness.owner, Guard(()), config.policies, config.retention, harness.clock, harness.chance
        )
    )


async def want(harness: EngineHarness, id: str, **criteria: Any) -> None:
    active = criteria.pop("active", True)
    given = {f"{name}_criterion": criteria.pop(name, None) for name in ("source", "type")}
    await harness.store.contracts.put(
        Contract(id, parse_address("handler:h"), properties=criteria, active=active, **given), None
    )
    await harness.registry.refresh()


async def publish(harness: EngineHarness, event: NewEvent) -> str:
    appended = await harness.store.events.append([event])
    await harness.route()
    return appended[0].id


async def test_a_disabled_contract_that_would_match_is_listed_first(harness: EngineHarness, ops: Operations) -> None:
    for number in range(5):
        await want(harness, f"a{number}", type=Criterion("other"))
    await want(harness, "off", type=Criterion("order.placed"), active=False)
    id = await publish(harness, new_event("order.placed"))
    (nearest,) = encode(await ops.events.explain(id, limit=1))["missed"]
    assert nearest == {"contract_id": "off", "failed": 1, "why": ["the contract is disabled"]}


async def test_every_miss_names_the_value_and_the_criterion_nearest_first(
    harness: EngineHarness, ops: Operations
) -> None:
    await want(harness, "far", source=Criterion("github"), type=Criterion("push"), branch=Criterion(("main", "next")))
    await want(harness, "near", type=Criterion(pattern="order.*"), country=Criterion("NZ"))
    await want(harness, "off", type=Criterion(pattern="order.*"), active=False)
    await want(harness, "shape", country=Criterion(pattern="A?"), total=Criterion(), labels=Criterion("vip"))
    await want(harness, "yes", type=Criterion("order.placed"))
    id = await publish(harness, new_event("order.placed", properties={"country": "FR", "labels": ["a", "b"]}))
    answer = encode(await ops.events.explain(id))
    assert answer["event"]["id"] == id
    assert answer["verdict"] == "it has 1 delivery"
    assert [row["contract_id"] for row in answer["deliveries"]] == answer["wanted_now"] == ["yes"]
    assert answer["missed"] == [
        {"contract_id": "off", "failed": 1, "why": ["the contract is disabled"]},
        {"contract_id": "near", "failed": 1, "why": ["property 'country' is 'FR', not 'NZ'"]},
        {
            "contract_id": "far",
            "failed": 3,
            "why": [
                "source is 'app', not 'github'",
                "type is 'order.placed', not 'push'",
                "property 'branch' is missing; expected one of 'main', 'next'",
            ],
        },
        {
            "contract_id": "shape",
            "failed": 3,
            "why": [
                "property 'country' is 'FR', which does not match the pattern 'A?'",
                "property 'total' is missing; expected any value",
                "property 'labels' is ['a', 'b'], which does not contain 'vip'",
            ],
        },
    ]


async def test_a_near_miss_is_listed_before_unrelated_contracts(harness: EngineHarness, ops: Operations) -> None:
    for number in range(21):
        await want(harness, f"a{number:02}", type=Criterion(f"other.{number}"))
    await want(harness, "b-country", country=Criterion("AU"))
    await want(harness, "z-near", source=Criterion("app"), type=Criterion("order.placed"), country=Criterion("NZ"))
    id = await publish(harness, new_event("order.placed", properties={"country": "FR"}))
    answer = encode(await ops.events.explain(id, limit=5))
    assert answer["missed"][0]["contract_id"] == "z-near"
    assert answer["missed_left_off"] == 18


async def test_the_type_weighs_more_than_a_property(harness: EngineHarness, ops: Operations) -> None:
    await want(harness, "a-type-wrong", type=Criterion("invoice.made"), country=Criterion("FR"), total=Criterion("5"))
    await want(harness, "b-type-right", type=Criterion("order.placed"), country=Criterion("NZ"), total=Criterion("6"))
    await want(harness, "c-source-right", source=Criterion("app"), type=Criterion("invoice.made"))
    id = await publish(harness, new_event("order.placed", properties={"country": "FR", "total": 5}))
    missed = [one["contract_id"] for one in encode(await ops.events.explain(id))["missed"]]
    assert missed == ["b-type-right", "c-source-right", "a-type-wrong"]


async def test_among_wrong_types_the_most_alike_comes_first(harness: EngineHarness, ops: Operations) -> None:
    for id, type in (("a", "invoice.made"), ("b", "order.paid"), ("c", "order.place")):
        await want(harness, id, type=Criterion(type))
    event = await publish(harness, new_event("order.placed"))
    assert [one["contract_id"] for one in encode(await ops.events.explain(event))["missed"]] == ["c", "b", "a"]


async def test_a_contract_that_only_lacks_the_source_is_a_near_miss(harness: EngineHarness, ops: Operations) -> None:
    await want(harness, "a-all")
    await want(harness, "b-type", type=Criterion("hook.agent_stop"))
    await want(harness, "c-off", source=Criterion("hook"), type=Criterion("hook.agent_stop"), active=False)
    id = await publish(harness, new_event("hook.agent_stop", source="hook"))
    missed = [one["contract_id"] for one in encode(await ops.events.explain(id))["missed"]]
    assert missed == ["c-off", "b-type", "a-all"]


async def test_the_attempts_of_every_delivery_are_listed(harness: EngineHarness, ops: Operations) -> None:
    await want(harness, "yes", type=Criterion("t"))
    harness.script.answer = lambda claim: Retry("the receiver is away")
    id = await publish(harness, new_event("t"))
    await harness.drain()
    (row,) = encode(await ops.events.explain(id))["deliveries"]
    assert [each["error"] for each in row["history"]] == ["the receiver is away"]


async def test_an_event_that_no_contract_matches_is_explained(harness: EngineHarness, ops: Operations) -> None:
    id = await publish(harness, new_event("lonely"))
    assert encode(await ops.events.explain(id))["verdict"] == "no contract matches it: there are no contracts"
    await want(harness, "no", type=Criterion("crowded"))
    answer = encode(await ops.events.explain(id))
    assert answer["verdict"] == "no contract matches it: 1 contract checked"
    assert answer["missed"][0]["why"] == ["type is 'lonely', not 'crowded'"]


async def test_a_contract_that_came_too_late_is_named(harness: EngineHarness, ops: Operations) -> None:
    id = await publish(harness, new_event("early"))
    await want(harness, "late", type=Criterion("early"))
    answer = encode(await ops.events.explain(id))
    assert answer["wanted_now"] == ["late"]
    assert answer["verdict"].startswith("it has no delivery; 1 contract would match it now but got no delivery")


async def test_an_unrouted_direct_address_is_not_reported_as_no_match(harness: EngineHarness, ops: Operations) -> None:
    (appended,) = await harness.store.events.append([new_event("hello", to="handler:h")])
    assert "waits for the router" in encode(await ops.events.explain(appended.id))["verdict"]
    await harness.route()
    assert encode(await ops.events.explain(appended.id))["verdict"] == "it has 1 delivery"


async def test_a_hidden_source_is_explained(harness: EngineHarness, ops: Operations) -> None:
    await want(harness, "all")
    id = await publish(harness, new_event("stop", source="hook"))
    (missed,) = encode(await ops.events.explain(id))["missed"]
    assert missed["why"] == ["source 'hook' reaches a contract only if it names that source"]


async def test_every_list_is_bounded_and_says_what_was_left_off(harness: EngineHarness, ops: Operations) -> None:
    for i in range(4):
        await want(harness, f"yes{i}", type=Criterion("t"))
        await want(harness, f"no{i}", **{f"p{n}": Criterion("x") for n in range(WHY_MAX + 3)})
    id = await publish(harness, new_event("t"))
    answer = encode(await ops.events.explain(id, limit=3))
    for name in ("deliveries", "wanted_now", "missed"):
        assert (len(answer[name]), answer[f"{name}_left_off"]) == (3, 1)
    assert (answer["missed"][0]["failed"], len(answer["missed"][0]["why"])) == (WHY_MAX + 3, WHY_MAX)


async def test_the_nearest_are_found_among_many(harness: EngineHarness, ops: Operations) -> None:
    class Crowd:
        """Every store's contracts, and a thousand more that are further away."""

        async def all(self, inactive: bool = False) -> list[Contract]:
            further = [
                Contract(f"a{i:04}", parse_address("handler:h"), Criterion("x"), Criterion("y")) for i in range(1200)
            ]
            near = Contract("near", parse_address("handler:h"), type_criterion=Criterion("y"))
            return [*further, near]

    id = await publish(harness, new_event("t"))
    ops.events._store = _With(harness.store, contracts=Crowd())  # type: ignore[assignment]
    answer = encode(await ops.events.explain(id, limit=2))
    assert [missed["contract_id"] for missed in answer["missed"]] == ["near", "a0000"]
    assert answer["missed_left_off"] == 1199


class _With:
    """A store of which one role is another's."""

    def __init__(self, store: Any, **roles: Any) -> None:
        self._store = store
        self.__dict__.update(roles)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.parametrize("limit", [0, 1001])
async def test_a_limit_out_of_range_is_refused(limit: int, ops: Operations) -> None:
    with pytest.raises(BadInput, match="limit must be"):
        await ops.events.explain("evt", limit)


async def test_a_missing_event_is_not_found(ops: Operations) -> None:
    with pytest.raises(NotFound, match="there is no event 'evt_none'"):
        await ops.events.explain("evt_none")


async def test_a_tried_contract_groups_the_reasons_of_its_misses(harness: EngineHarness, ops: Operations) -> None:
    for country in ("NZ", "FR", "FR", "DE"):
        await publish(harness, new_event("order.placed", properties={"country": country}))
    id = await publish(harness, new_event("other", properties={"country": "FR"}))
    body = {
        "id": "try", "target": {"handler": "h"}, "active": False,
        "type_criterion": {"pattern": "order.*"}, "properties": {"country": "NZ"},
    }  # fmt: skip
    tried = encode(await ops.contracts.test(body))
    assert (tried["tested"], tried["matched"], len(tried["items"])) == (5, 1, 1)
    assert [(group["events"], group["alone"], group["why"]) for group in tried["misses"]] == [
        (3, 2, "property 'country' is 'FR', not 'NZ'"),
        (1, 1, "property 'country' is 'DE', not 'NZ'"),
        (1, 0, "type is 'other', which does not match the pattern 'order.*'"),
    ]
    assert tried["misses"][2]["example"] == id
    assert tried["misses_left_off"] == 0


async def test_groups_of_misses_are_bounded(harness: EngineHarness, ops: Operations) -> None:
    for i in range(WHY_MAX + 2):
        await publish(harness, new_event(f"t{i}"))
    tried = encode(await ops.contracts.test({"id": "try", "target": {"handler": "h"}, "type_criterion": "none"}))
    assert (len(tried["misses"]), tried["misses_left_off"]) == (WHY_MAX, 2)


async def test_every_delivery_shows_its_receipts_or_that_there_are_none_yet(
    harness: EngineHarness, ops: Operations
) -> None:
    await want(harness, "a")
    await want(harness, "b")
    id = await publish(harness, new_event("order.placed"))
    assert [row["receipts"] for row in encode(await ops.events.explain(id))["deliveries"]] == [[], []]
    harness.script.answer = lambda claim: (
        Retry("busy") if claim.delivery.contract_id == "b" and not claim.delivery.attempts else Delivered()
    )
    await harness.drain()
    harness.clock.advance(120)
    await harness.drain()
    first, second = encode(await ops.events.explain(id))["deliveries"]
    assert [receipt["state"] for receipt in first["receipts"]] == ["delivered"]
    assert [receipt["state"] for receipt in second["receipts"]] == ["pending", "delivered"]
    hashes = {(link.chain, link.seq): link.hash.hex() async for page in harness.store.receipts.every() for link in page}
    receipts = [*first["receipts"], *second["receipts"]]
    assert {hashes[receipt["chain"], receipt["seq"]] for receipt in receipts} == {
        receipt["h_self"] for receipt in receipts
    }
    assert second["receipts"][-1]["at"] == second["settled_at"]
    assert encode(await ops.events.explain(id, limit=1))["deliveries"][0]["receipts"] == first["receipts"]


async def test_a_requeued_delivery_shows_every_end_it_had(harness: EngineHarness, ops: Operations) -> None:
    await want(harness, "a")
    id = await publish(harness, new_event("order.placed"))
    harness.script.answer = lambda claim: Dead(Reason.REJECTED, "no")
    await harness.drain()
    (row,) = await harness.rows()
    await ops.dead_letters.reprocess(ids=[row.id], actor="ann")
    harness.clock.advance(1)
    harness.script.answer = lambda claim: Delivered()
    await harness.drain()
    (delivery,) = encode(await ops.events.explain(id))["deliveries"]
    first = row.generation
    assert [(receipt["generation"], receipt["state"], receipt["actor"]) for receipt in delivery["receipts"]] == [
        (first, "dead", "engine"),
        (first + 1, "pending", "ann"),
        (first + 1, "delivered", "engine"),
    ]

"""Handlers by their annotations: an event, a delivery, or the payload as a pydantic model."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel

from holdfast import BadInput, Delivery, Event, Outbox, Reject
from holdfast.domain.delivery import Delivered
from holdfast.domain.event import new_event
from holdfast.testing.outbox import RecordingOutbox

if TYPE_CHECKING:
    from elsewhere import Unknown


class Order(BaseModel):
    id: int
    item: str = "tea"


class Line(TypedDict):
    sku: str
    count: NotRequired[int]


@dataclass
class Sale:
    id: UUID
    at: datetime
    lines: list[Line]
    total: Decimal = Decimal(0)
    note: str | None = None


class Pair(NamedTuple):
    a: int


@dataclass
class Unfit:
    what: Pair


def publish(outbox: RecordingOutbox, *payloads: Any) -> None:
    with outbox.connection() as connection:
        for payload in payloads:
            outbox.publish(connection, "order.placed", payload)


def test_each_parameter_gets_what_its_annotation_says(holdfast_outbox: RecordingOutbox) -> None:
    seen: list[Any] = []

    @holdfast_outbox.on("order.*")
    async def ship(delivery: Delivery, order: Order, event: Event) -> None:
        seen.append((order, event.type, delivery.address))

    publish(holdfast_outbox, {"id": 1})
    assert holdfast_outbox.drain().delivered == 1
    assert seen == [(Order(id=1), "order.placed", "handler:ship")]


def test_without_annotations_the_place_decides(holdfast_outbox: RecordingOutbox) -> None:
    seen: list[Any] = []

    @holdfast_outbox.on("order.*")
    def ship(event, delivery) -> None:
        seen.append((event.payload, delivery.attempts))

    publish(holdfast_outbox, {"id": 1})
    holdfast_outbox.drain()
    assert seen == [({"id": 1}, 0)]


def test_a_payload_that_does_not_fit_its_model_is_dead_with_a_readable_reason(
    holdfast_outbox: RecordingOutbox,
) -> None:
    @holdfast_outbox.on("order.*")
    async def ship(order: Order) -> None:
        raise AssertionError("never called")

    publish(holdfast_outbox, {"id": "many", "item": None})
    (letter,) = holdfast_outbox.drain().dead
    assert letter.reason == "rejected"
    assert letter.last_error.startswith("the payload is not a valid Order: id: Input should be a valid integer")
    assert "item: Input should be a valid string" in letter.last_error


def test_a_model_is_published_as_its_json(holdfast_outbox: RecordingOutbox) -> None:
    publish(holdfast_outbox, Order(id=7))
    (event,) = holdfast_outbox.published()
    assert event.payload == {"id": 7, "item": "tea"}


def test_a_handlers_own_validation_error_is_no_rejection(holdfast_outbox: RecordingOutbox) -> None:
    @holdfast_outbox.on("order.*")
    async def ship(order: Order) -> None:
        Order.model_validate({"id": "many"})

    publish(holdfast_outbox, {"id": 1})
    drained = holdfast_outbox.drain()
    assert (drained.failed, drained.dead) == (1, [])


def test_a_name_imported_for_type_checkers_only_must_be_one_of_ours() -> None:
    with pytest.raises(BadInput, match="cannot be resolved"):

        @Outbox("sqlite:///x.db").on("a")
        def ship(order: Unknown) -> None: ...


def test_a_partial_of_a_coroutine_function_is_awaited(holdfast_outbox: RecordingOutbox) -> None:
    seen: list[Any] = []
    holdfast_outbox.on("order.*", name="ship")(partial(_keep, seen))
    publish(holdfast_outbox, {"id": 1})
    assert (holdfast_outbox.drain().delivered, seen) == (1, [Order(id=1)])


def test_a_third_parameter_must_say_what_it_is() -> None:
    with pytest.raises(BadInput, match="annotate the parameter more"):
        Outbox("sqlite:///x.db").on("a")(lambda event, delivery, more: None)


def test_a_rejection_says_why(holdfast_outbox: RecordingOutbox) -> None:
    @holdfast_outbox.on("order.*")
    async def ship(order: Order) -> None:
        raise Reject(f"we do not sell {order.item}")

    publish(holdfast_outbox, {"id": 1})
    (letter,) = holdfast_outbox.drain().dead
    assert (letter.reason, letter.last_error) == ("rejected", "we do not sell tea")
    assert isinstance(holdfast_outbox.connection(), sqlite3.Connection)


async def _keep(seen: list[Any], order: Order) -> None:
    seen.append(order)


def test_events_a_handler_returns_as_effects_are_appended_with_its_end(holdfast_outbox: RecordingOutbox) -> None:
    seen: list[str] = []

    @holdfast_outbox.on("order.placed")
    async def split(event: Event) -> Delivered:
        return Delivered(effects=[new_event("parcel.packed", {"of": event.payload["id"], "n": n}) for n in (1, 2)])

    @holdfast_outbox.on("parcel.*")
    async def carry(event: Event) -> str:
        seen.append(f"{event.payload['of']}/{event.payload['n']}")
        return "any other answer means delivered"

    publish(holdfast_outbox, {"id": 7})
    assert holdfast_outbox.drain().delivered == 3
    assert seen == ["7/1", "7/2"]


def test_a_dict_a_typed_dict_and_a_dataclass_get_the_payload(holdfast_outbox: RecordingOutbox) -> None:
    seen: list[Any] = []
    sale = Sale(UUID(int=7), datetime(2026, 1, 31, tzinfo=UTC), [{"sku": "tea"}], Decimal("9.90"))

    @holdfast_outbox.on("order.*")
    async def plain(payload: dict[str, Any]) -> None:
        seen.append(payload["total"])

    @holdfast_outbox.on("order.*")
    def mapped(payload: Mapping[str, Any], delivery: Delivery) -> None:
        seen.append(delivery.attempts)

    @holdfast_outbox.on("order.*")
    async def typed(sale: Sale, event: Event) -> None:
        seen.append(sale)

    publish(holdfast_outbox, sale)
    assert holdfast_outbox.drain().delivered == 3
    assert sale in seen
    assert "9.90" in seen
    assert 0 in seen


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"id": 3}, "id is not a UUID"),
        ({"at": None}, "at is not a datetime"),
        ({"lines": [{"sku": "a"}, {"sku": 1}]}, "lines[1].sku is not a str"),
        ({"lines": {}}, "lines is not an array"),
        ({"lines": [{}]}, "lines[0].sku is missing"),
        ({"note": 3}, "note is not a str"),
        ({"total": "much"}, "total is not a Decimal"),
    ],
)
def test_a_payload_that_does_not_fit_its_dataclass_is_dead_with_its_path(
    holdfast_outbox: RecordingOutbox, change: dict[str, Any], reason: str
) -> None:
    @holdfast_outbox.on("order.*")
    async def ship(sale: Sale) -> None:
        raise AssertionError("never called")

    publish(holdfast_outbox, {"id": str(UUID(int=7)), "at": "2026-01-31T12:00:00Z", "lines": [], "more": 1} | change)
    (letter,) = holdfast_outbox.drain().dead
    assert (letter.reason, letter.last_error) == ("rejected", f"the payload is not a valid Sale: {reason}")


@pytest.mark.parametrize("annotation", [int, str, list, Unfit, Event | None, dict[int, str]])
def test_an_annotation_that_cannot_be_served_is_refused_at_registration(annotation: Any) -> None:
    def ship(thing): ...

    ship.__annotations__["thing"] = annotation
    outbox = Outbox("sqlite:///x.db")
    with pytest.raises(
        BadInput, match=r"the parameter thing of .* is annotated as .*, which a handler cannot get: use"
    ):
        outbox.on("a")(ship)
    assert outbox.handlers == {}

"""Python values in a payload: which have a JSON form, and how a value without one is named."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from holdfast.domain.canonical import dump_json
from holdfast.domain.errors import BadJson
from holdfast.domain.json_value import DEPTH_MAX


class Size(enum.Enum):
    BIG = "big"


class Level(enum.IntEnum):
    HIGH = 3


class Item(BaseModel):
    name: str
    made: datetime
    price: Decimal = Decimal("9.90")


@dataclasses.dataclass
class Order:
    id: UUID
    items: list[Any]
    sizes: dict[Any, Any] = dataclasses.field(default_factory=dict)


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ID = UUID("0194b8a0-0000-7000-8000-000000000001")

FORMS = {
    "UTC": (NOON, '"2026-01-31T12:00:00Z"'),
    "another zone": (NOON.astimezone(timezone(timedelta(hours=2))), '"2026-01-31T14:00:00+02:00"'),
    "microseconds": (NOON.replace(microsecond=5), '"2026-01-31T12:00:00.000005Z"'),
    "no zone": (NOON.replace(tzinfo=None), '"2026-01-31T12:00:00"'),
    "date": (date(2026, 1, 31), '"2026-01-31"'),
    "time": (time(12, 30), '"12:30:00"'),
    "uuid": (ID, f'"{ID}"'),
    "decimal": (Decimal("9.90"), '"9.90"'),
    "enum": (Size.BIG, '"big"'),
    "number enum": (Level.HIGH, "3"),
    "model": (Item(name="tea", made=NOON), '{"made":"2026-01-31T12:00:00Z","name":"tea","price":"9.90"}'),
    "dataclass": (Order(ID, [Size.BIG]), f'{{"id":"{ID}","items":["big"],"sizes":{{}}}}'),
    "tuple": ((1, "a"), '[1,"a"]'),
    "mapping": (OrderedDict(b=1, a=2), '{"a":2,"b":1}'),
}


@pytest.mark.parametrize(("value", "text"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("within", [False, True])
def test_a_value_has_the_same_form_at_the_top_and_inside(value: object, text: str, within: bool) -> None:
    assert dump_json({"a": [value]} if within else value).decode() == (f'{{"a":[{text}]}}' if within else text)


def test_a_value_has_the_same_form_in_a_model_and_outside() -> None:
    class Everything(BaseModel):
        values: list[Any]

    values = [value for name, (value, _) in FORMS.items() if name not in ("tuple", "mapping")]
    assert dump_json(Everything(values=values)) == dump_json({"values": values})


FAULTS = {
    "set": ({"lines": [{"tags": {1}}]}, "payload is not a JSON value: lines[0].tags is a set; use a sorted list"),
    "object": ({"a b": object()}, "payload is not a JSON value: ['a b'] is a object; convert it to JSON types"),
    "top": (b"raw", "payload is not a JSON value: it is a bytes; decode it"),
    "class": (Item, "payload is not a JSON value: it is a ModelMetaclass; pass a value, not a class"),
    "NaN": ({"a": [1.0, float("nan")]}, "payload contains NaN or an infinity at a[1], which JSON does not have"),
    "surrogate": ({"a": "\ud800"}, "payload contains a lone surrogate at a, which"),
    "NUL": ({"a": ["x\x00"]}, "payload contains U+0000 (NUL) at a[0], which"),
    "digits": ({"n": 10**5000}, "payload contains a number with too many digits at n; send"),
    "int key": ({"a": {1: 2}}, "payload is not a JSON value: the key 1 at a is of type int; keys must be strings"),
    "only int keys": ({1: 2}, "payload is not a JSON value: the key 1 is of type int; keys must be strings"),
    "None key": ([[{None: 1}]], "payload is not a JSON value: the key None at [0][0] is of type NoneType"),
    "key in a tuple": (({True: 1},), "payload is not a JSON value: the key True at [0] is of type bool"),
    "key in a dataclass": ({"o": Order(ID, [], {1: 2})}, "the key 1 at o.sizes is of type int"),
    "key in an enum": (enum.Enum("Odd", {"A": {1: 2}})["A"], "the key 1 is of type int"),  # type: ignore[dict-item]
    "set in a dataclass": (Order(ID, [set()]), "payload is not a JSON value: items[0] is a set"),
    "a long key": ({"k" * 500: set()}, "..."),
}  # fmt: skip


@pytest.mark.parametrize(("value", "message"), FAULTS.values(), ids=FAULTS)
def test_a_value_without_a_form_is_named_by_its_path(value: object, message: str) -> None:
    with pytest.raises(BadJson) as refused:
        dump_json(value)
    assert message in refused.value.message
    assert len(refused.value.message) < 300


def test_a_dataclass_that_contains_itself_is_named() -> None:
    order = Order(ID, [])
    order.items.append(order)
    with pytest.raises(BadJson, match=r"payload contains itself at items\[0\]"):
        dump_json(order)


def test_levels_of_dataclasses_count() -> None:
    value: object = 0
    for _ in range(DEPTH_MAX // 2):
        value = Order(ID, [value])
    dump_json(value)
    with pytest.raises(BadJson, match="deeper than 64"):
        dump_json([value])


def test_a_model_that_cannot_be_dumped_is_named() -> None:
    class Broken(BaseModel):
        model_config = {"arbitrary_types_allowed": True}
        what: Any

    with pytest.raises(BadJson, match=r"payload is not a JSON value: a\[0\] cannot be dumped: "):
        dump_json({"a": [Broken(what=object())]})


@pytest.mark.parametrize("key", [0, -7, 10**30, 1.5, -2.5e-9, 1e300, 1e16, True, False, None, Level.HIGH])
@pytest.mark.parametrize("wrap", [lambda key: {key: 1}, lambda key: {"a": [1, {"b": {key: [2]}}]}])
def test_no_key_is_made_of_another_value(key: Any, wrap: Any) -> None:
    with pytest.raises(BadJson, match="keys must be strings"):
        dump_json(wrap(key))


@pytest.mark.parametrize("key", ["0", "-7", "1.5", "true", "null", '1":', "2026-01-31"])
def test_a_text_that_looks_like_a_number_is_a_key(key: str) -> None:
    value = {"a": {key: [{key: key}]}}
    assert json.loads(dump_json(value)) == value

"""Bodies of requests: how each is read, and its schema. Both judge a body alike; a test compares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.domain.errors import BadInput
from holdfast.domain.event import NAME_MAX, PROPERTIES_MAX
from holdfast.domain.states import Reason, State
from holdfast.domain.text import short_repr
from holdfast.ingress.accept import reject_unknown_keys
from holdfast.operations.answers.maintenance import PAUSE_SCOPES
from holdfast.operations.answers.schema import JsonSchema
from holdfast.operations.contracts import OVERLAP_MAX_S
from holdfast.surfaces.rest.contract_bodies import CONTRACT, SECRET, TRIAL
from holdfast.surfaces.rest.parameters import PAGE_MAX
from holdfast.surfaces.rest.value_schemas import (
    ADDRESS,
    FLAG_OR_NULL,
    JSON,
    NAME,
    TEXT,
    TIME,
    or_null,
)

DELIVERY_ID_MAX = 2**62 - 1
SELECTION_KEYS = ("ids", "filter", "all", "dry_run")


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request. `read` turns its JSON value into arguments of the verb, or raises `BadInput`."""

    schema: JsonSchema
    read: Callable[[object], dict[str, object]]


def read_whole(value: object) -> dict[str, object]:
    """The body as the one argument `body`: the verb checks it."""
    return {"body": value}


def read_event_ids(value: object) -> dict[str, object]:
    ids = _object(value, ("ids",)).get("ids")
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
        raise BadInput(f"ids must be a list of event ids, not {short_repr(ids)}")
    return {"ids": ids}


def read_selection(value: object) -> dict[str, object]:
    """The selection of dead letters. Null means the same as a key that is left out."""
    given = _object(value, SELECTION_KEYS)
    ids, filter = given.get("ids"), given.get("filter")
    if ids is not None and not isinstance(ids, list):
        raise BadInput(f"ids must be a list of delivery ids, not {short_repr(ids)}")
    if filter is not None and not isinstance(filter, dict):
        raise BadInput(f"filter must be an object, not {short_repr(filter)}")
    flags = {name: _flag(given, name) for name in ("all", "dry_run")}
    return {"ids": None if ids is None else [_delivery_id(id) for id in ids], "filter": filter, **flags}


def read_pause(value: object) -> dict[str, object]:
    given = _object(value, ("scope", "name"))
    return {"scope": given.get("scope"), "name": given.get("name")}


def _object(value: object, known: tuple[str, ...]) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise BadInput(f"the body must be a JSON object, not {short_repr(value)}")
    reject_unknown_keys(value, known, "the body")
    return value


def _flag(given: Mapping[str, object], name: str) -> bool:
    value = given.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadInput(f"{name} must be true or false, not {short_repr(value)}")
    return value is True


def _delivery_id(value: object) -> int:
    """Ids are numbers; a client that only has text may send the digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 5.0 is an integer in JSON
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= DELIVERY_ID_MAX:
        raise BadInput(f"ids must list delivery ids, not {short_repr(value)}")
    return value


def _closed(properties: Mapping[str, object], *required: str, **more: object) -> JsonSchema:
    """An object that has no other keys."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": dict(properties),
        **more,
    }


EVENT = _closed(
    {
        "type": {
            "type": "string",
            "maxLength": NAME_MAX,
            "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.:/@+-]*$",
            "examples": ["order.placed"],
        },
        "source": or_null(NAME),
        "stream": or_null(NAME),
        "timestamp": or_null(TIME),
        "properties": {
            "type": ["object", "null"],
            "description": "At most 16 KiB as JSON.",
            "maxProperties": PROPERTIES_MAX,
            "propertyNames": NAME,
            "additionalProperties": {
                "anyOf": [{"type": ["null", "boolean", "number"]}, TEXT, {"type": "array", "items": TEXT}]
            },
        },
        "payload": JSON,
        "dedup_key": or_null(NAME),
        "to": or_null(ADDRESS),
    },
    "type",
)
ROTATION = _closed(
    {"secret": SECRET, "overlap_seconds": {"type": "number", "minimum": 0, "maximum": OVERLAP_MAX_S}}, "secret"
)
EVENT_IDS = _closed({"ids": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": PAGE_MAX}}, "ids")
PAUSE: JsonSchema = {
    "oneOf": [
        _closed(
            {"scope": {"enum": [word for word in PAUSE_SCOPES if word != "address"]}, "name": NAME}, "scope", "name"
        ),
        _closed({"scope": {"const": "address"}, "name": {**ADDRESS, "maxLength": NAME_MAX}}, "scope", "name"),
    ]
}
_FILTER_VALUES: dict[str, JsonSchema] = {
    "reason": {"enum": [reason.value for reason in Reason]},
    "contract": TEXT,
    "address": {"type": "string", "pattern": "^[^\\u0000…]*$"},
    "stream": TEXT,
    "event": TEXT,
}
_FILTER = {
    **{name: or_null(schema) for name, schema in _FILTER_VALUES.items()},
    "state": {"enum": [State.DEAD.value, None]},
}
_IDS: JsonSchema = {
    "type": "array",
    "minItems": 1,
    "maxItems": PAGE_MAX,
    "items": {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": DELIVERY_ID_MAX},
            {"type": "string", "pattern": "^[0-9]{1,18}$"},
        ]
    },
}
_NONE: JsonSchema = {"type": "null"}
_NOT: JsonSchema = {"enum": [False, None]}
_SOME_FILTER: JsonSchema = {
    **_closed(_FILTER),
    "anyOf": [{"required": [name], "properties": {name: schema}} for name, schema in _FILTER_VALUES.items()],
}
_NO_FILTER = or_null(_closed({**dict.fromkeys(_FILTER_VALUES, _NONE), "state": _FILTER["state"]}))
SELECTION: JsonSchema = {
    "description": "Exactly one of ids, filter and all: true. An empty filter selects nothing.",
    "oneOf": [
        _closed({"ids": _IDS, "filter": _NONE, "all": _NOT, "dry_run": FLAG_OR_NULL}, "ids"),
        _closed({"ids": _NONE, "filter": _SOME_FILTER, "all": _NOT, "dry_run": FLAG_OR_NULL}, "filter"),
        _closed({"ids": _NONE, "filter": _NO_FILTER, "all": {"const": True}, "dry_run": FLAG_OR_NULL}, "all"),
    ],
}

EVENT_BODY = Body(EVENT, read_whole)
CONTRACT_BODY = Body(CONTRACT, read_whole)
TRIAL_BODY = Body(TRIAL, read_whole)
ROTATION_BODY = Body(ROTATION, read_whole)
EVENT_IDS_BODY = Body(EVENT_IDS, read_event_ids)
SELECTION_BODY = Body(SELECTION, read_selection)
PAUSE_BODY = Body(PAUSE, read_pause)

"""Bodies of requests: how each is read, and its schema. Both judge a body alike; a test compares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.domain.errors import BadInput
from holdfast.domain.event import NAME_MAX, PROPERTIES_MAX
from holdfast.domain.message import MESSAGE_TYPES, TEXT_FIELDS, URL_MAX
from holdfast.domain.states import Reason, State
from holdfast.domain.substrate_receipt import ACTOR_KINDS, REFERENCES_MAX
from holdfast.domain.text import short_repr
from holdfast.ingress.accept import reject_unknown_keys
from holdfast.operations.answers.maintenance import PAUSE_SCOPES
from holdfast.operations.answers.schema import JsonSchema
from holdfast.operations.contract_rebuild import EVENTS_MAX
from holdfast.operations.contracts import OVERLAP_MAX_S
from holdfast.operations.sessions import REBUILD_MAX
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

REPLAY_MAX = 500
SEQ_MAX = 2**62 - 1
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


def read_binding(value: object) -> dict[str, object]:
    given = _object(value, ("origin", "channel", "bound"))
    bound = given.get("bound")
    if bound is not None and not isinstance(bound, bool):
        raise BadInput(f"bound must be true or false, not {short_repr(bound)}")
    return {"origin": given.get("origin"), "channel": given.get("channel"), "bound": bound is not False}


def read_session_ids(value: object) -> dict[str, object]:
    """The sessions to rebuild. Null means the same as a key that is left out."""
    given = _object(value, ("ids", "all", "after", "limit"))
    ids, after = given.get("ids"), given.get("after")
    if ids is not None and not (isinstance(ids, list) and all(isinstance(id, str) for id in ids)):
        raise BadInput(f"ids must be a list of session ids, not {short_repr(ids)}")
    if after is not None and not isinstance(after, str):
        raise BadInput(f"after must be the next of the page before, not {short_repr(after)}")
    every = _flag(given, "all")
    return {"ids": ids, "all": every, "after": after, "limit": _whole(given, "limit", REBUILD_MAX)}


def read_contract_page(value: object) -> dict[str, object]:
    given = _object(value, ("after", "limit", "dry_run"))
    after = given.get("after")
    if after is not None and not isinstance(after, str):
        raise BadInput(f"after must be the next of the page before, not {short_repr(after)}")
    return {"after": after, "limit": _whole(given, "limit", EVENTS_MAX), "dry_run": _flag(given, "dry_run")}


def _whole(given: Mapping[str, object], name: str, usual: int) -> int:
    """A number from 1 to `usual`, which is also what null means."""
    value = given.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 5.0 is an integer in JSON
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= usual:
        raise BadInput(f"{name} must be a whole number from 1 to {usual}, not {short_repr(value)}")
    return value


def read_replay(value: object) -> dict[str, object]:
    given = _object(value, ("from", "to", "sink", "contract", "limit"))
    targets = {name: given.get(name) for name in ("sink", "contract")}
    for name, target in targets.items():
        if target is not None and not isinstance(target, str):
            raise BadInput(f"{name} must be a name, not {short_repr(target)}")
    numbers = {"first": given.get("from", 1), "last": given.get("to"), "limit": given.get("limit", REPLAY_MAX)}
    for name, number in numbers.items():
        if isinstance(number, float) and number.is_integer():
            numbers[name] = number = int(number)  # 5.0 is an integer in JSON
        if isinstance(number, bool) or not isinstance(number, int | None) or not 1 <= (number or 1) <= SEQ_MAX:
            raise BadInput("from, to and limit must be whole numbers from 1")
        if number is None and name != "last":
            raise BadInput("from and limit must be whole numbers from 1, or left out")
    return {**targets, **numbers}


def _all_of(value: object, names: tuple[str, ...]) -> dict[str, object]:
    given = _object(value, names)
    return {name: given.get(name) for name in names}


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
_NAME_OR_NULL = or_null(NAME)
MESSAGE = _closed(
    {
        "session": {**NAME, "description": "Its id, its name, a bound chat (origin:channel), a repository, or auto."},
        "content": {
            "type": "string",
            "description": "At most 64 KiB. Text that an agent CLI reads as a command needs command: true.",
        },
        "message_type": {"enum": [None, *MESSAGE_TYPES]},
        "origin": _NAME_OR_NULL,
        **dict.fromkeys(TEXT_FIELDS, _NAME_OR_NULL),
        "actor_avatar_url": {"type": ["string", "null"], "maxLength": URL_MAX},
        "payload": JSON,
        "command": FLAG_OR_NULL,
    },
    "session",
    "content",
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

SESSION_NAME = _closed(
    {"name": {"type": "string", "pattern": "^(?:(?!auto$)[A-Za-z0-9][A-Za-z0-9_.-]{0,63})?$"}}, "name"
)
BINDING = _closed({"origin": NAME, "channel": NAME, "bound": FLAG_OR_NULL}, "origin", "channel")
PANE = _closed({"pane": {"type": "string", "pattern": "^%[0-9]{1,9}$"}, "tmux": NAME}, "pane", "tmux")

_SEQ: JsonSchema = {"type": "integer", "minimum": 1, "maximum": SEQ_MAX}
_PART = {"from": _SEQ, "to": or_null(_SEQ), "limit": {"type": "integer", "minimum": 1, "maximum": REPLAY_MAX}}
REPLAY: JsonSchema = {
    "description": "Exactly one of sink and contract gets the events again.",
    "oneOf": [
        _closed({**_PART, "sink": NAME, "contract": _NONE}, "sink"),
        _closed({**_PART, "sink": _NONE, "contract": NAME}, "contract"),
    ],
}
REPLAY_BODY = Body(REPLAY, read_replay)
_SESSIONS: JsonSchema = {"type": "array", "minItems": 1, "maxItems": REBUILD_MAX, "items": NAME}
_SESSION_PAGE = {"after": or_null(TEXT), "limit": or_null({"type": "integer", "minimum": 1, "maximum": REBUILD_MAX})}
SESSION_IDS: JsonSchema = {
    "description": "Exactly one of ids and all: true. Call it with after: next until that is null.",
    "oneOf": [
        _closed({**_SESSION_PAGE, "ids": _SESSIONS, "all": _NOT}, "ids"),
        _closed({**_SESSION_PAGE, "ids": _NONE, "all": {"const": True}}, "all"),
    ],
}
SESSION_IDS_BODY = Body(SESSION_IDS, read_session_ids)
CONTRACT_PAGE = _closed(
    {
        "after": or_null({"type": "string", "pattern": "^[0-9]{1,18}$"}),
        "limit": or_null({"type": "integer", "minimum": 1, "maximum": EVENTS_MAX}),
        "dry_run": FLAG_OR_NULL,
    }
)
CONTRACT_PAGE_BODY = Body(CONTRACT_PAGE, read_contract_page)

SESSION_NAME_BODY = Body(SESSION_NAME, lambda value: _all_of(value, ("name",)))
BINDING_BODY = Body(BINDING, read_binding)
PANE_BODY = Body(PANE, lambda value: _all_of(value, ("pane", "tmux")))
MESSAGE_BODY = Body(MESSAGE, read_whole)
_ID: JsonSchema = {"anyOf": [NAME, {"type": "integer", "minimum": 1 - 2**63, "maximum": 2**63 - 1}]}
_DIGEST: JsonSchema = {"type": ["string", "null"], "pattern": "^[0-9a-f]{64}$"}
_REFERENCE: JsonSchema = {"anyOf": [{"type": ["null", "boolean", "number"]}, TEXT]}
RECEIPT = _closed(
    {
        "tenant_id": or_null(NAME),
        "source_system": NAME,
        "source_table": NAME,
        "source_id": _ID,
        "source_version": or_null(_ID),
        "action_type": NAME,
        "actor_id": or_null(NAME),
        "actor_kind": {"enum": [*ACTOR_KINDS, None]},
        "input": JSON,
        "input_hash": _DIGEST,
        "output": JSON,
        "output_hash": _DIGEST,
        "references": {
            "type": ["object", "null"],
            "description": "At most 16 KiB as JSON.",
            "maxProperties": REFERENCES_MAX,
            "propertyNames": NAME,
            "additionalProperties": {"anyOf": [_REFERENCE, {"type": "array", "items": _REFERENCE}]},
        },
    },
    "source_system", "source_table", "source_id", "action_type",
    allOf=[
        {"not": {"required": [name, f"{name}_hash"], "properties": {f"{name}_hash": {"type": "string"}}}}
        for name in ("input", "output")
    ],
)  # fmt: skip
RECEIPT_BODY = Body(RECEIPT, read_whole)
EVENT_BODY = Body(EVENT, read_whole)
CONTRACT_BODY = Body(CONTRACT, read_whole)
TRIAL_BODY = Body(TRIAL, read_whole)
ROTATION_BODY = Body(ROTATION, read_whole)
EVENT_IDS_BODY = Body(EVENT_IDS, read_event_ids)
SELECTION_BODY = Body(SELECTION, read_selection)
PAUSE_BODY = Body(PAUSE, read_pause)

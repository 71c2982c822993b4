"""From a JSON body to an event that can be appended: every field is checked, unknown fields are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from holdfast.domain.errors import BadInput
from holdfast.domain.event import SOURCE_DEFAULT, NewEvent, new_event
from holdfast.domain.text import short_repr

T = TypeVar("T")

FIELDS = ("type", "source", "stream", "timestamp", "properties", "payload", "dedup_key", "to")
TYPE_MISSING = "type is missing: name what happened, such as order.placed"


def parse_event(body: object, dedup_key: str | None = None) -> NewEvent:
    """The event in the body of `POST /api/events`. `dedup_key` (`Idempotency-Key`) is used if the body has none."""
    if not isinstance(body, Mapping):
        raise BadInput(f"an event is a JSON object with at least a type, not {short_repr(body)}")
    reject_unknown_keys(body, FIELDS, "an event")
    if "type" not in body:
        raise BadInput(TYPE_MISSING)
    return new_event(
        body["type"],
        body.get("payload"),
        source=_or_default(body.get("source"), SOURCE_DEFAULT),
        stream=body.get("stream"),
        timestamp=body.get("timestamp"),
        properties=_or_default(body.get("properties"), {}),
        dedup_key=_or_default(body.get("dedup_key"), dedup_key),
        to=body.get("to"),
    )


def reject_unknown_keys(body: Mapping[str, object], known: Sequence[str], what: str, noun: str = "key") -> None:
    """Raise `BadInput` for a key that is not known, and suggest the one it may be a typo of."""
    for key in body:
        if key not in known:
            near = get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
            raise BadInput(f"{what} has an unknown {noun} {short_repr(key)}{hint}")


def _or_default(value: T | None, default: T) -> T:
    return default if value is None else value

"""Reading foreign payloads: nothing in them can be trusted to be there, or to be of the kind the platform documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.domain.canonical import parse_json
from holdfast.domain.errors import BadInput
from holdfast.domain.event import NAME_MAX, check_timestamp, iso_time, show

TEXT_MAX = 2000
TYPE_PART_MAX = 100
_NOT_TYPE = re.compile(r"[^A-Za-z0-9_.:/@+-]+")
_TIME_MAX_S = 32503680000  # the year 3000


def dig(value: Any, *path: str | int) -> Any:
    """What stands at the path, or None.

    >>> dig({"a": [{"b": 1}]}, "a", 0, "b"), dig({"a": "text"}, "a", "b")
    (1, None)
    """
    for step in path:
        if isinstance(step, str) and isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def items(value: Any, *path: str | int) -> Iterator[Any]:
    """The members of a list that should stand at the path."""
    found = dig(value, *path)
    yield from found if isinstance(found, list) else ()


def text(value: Any, *path: str | int) -> str | None:
    """A text or a number at the path as text; None for anything else."""
    found = dig(value, *path)
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        return None
    return str(found)


def properties(**values: Any) -> dict[str, Any]:
    """Properties from what was found: what is missing is left out, long texts are cut (the payload has them whole)."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, str):
            found[name] = value[:TEXT_MAX]
        elif isinstance(value, bool | int | float):
            found[name] = value
        elif isinstance(value, list) and value:
            found[name] = [str(item)[:TYPE_PART_MAX] for item in value[:20]]
    return found


def event_type(*parts: str | None) -> str:
    """An event type from words of the platform's own.

    >>> event_type("github", "pull_request", "opened"), event_type("slack", "event", None, "weird name!")
    ('github.pull_request.opened', 'slack.event.weird_name')
    """
    clean = [_NOT_TYPE.sub("_", part[:TYPE_PART_MAX]).strip("_.") for part in parts if part]
    return ".".join(part for part in clean if part) or "unknown"


def stream(platform: str, *parts: str | None) -> str:
    """The name of a stream; the platform's own where the parts are not there."""
    words = [part for part in parts if part]
    name = ":".join([platform, *words])
    clean = "".join(char if char.isprintable() else "_" for char in name).strip()
    return clean if len(clean) <= NAME_MAX else clean[:NAME_MAX].strip()


def unix_time(value: Any) -> str | None:
    """RFC 3339 from Unix seconds, as a number or as text; None where it is no such time."""
    if isinstance(value, str):
        try:
            value = float(value) if len(value) < 30 and value.isascii() else None
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _TIME_MAX_S:
        return None
    return iso_time(round(value * 1000))


def rfc3339(value: Any) -> str | None:
    """The time if it is one, else None."""
    try:
        return check_timestamp(value)
    except BadInput:
        return None


def object_of(value: Any, platform: str) -> Mapping[str, Any]:
    """A platform's payload is an object; anything else was never sent by it."""
    if not isinstance(value, Mapping):
        raise BadInput(f"a {platform} payload is a JSON object, not {show(value)}")
    return value


def unwrap_form(value: Any) -> Any:
    """The JSON in a form's `payload` field, where the platform sends JSON that way; else the value as it is."""
    inner = dig(value, "payload")
    if isinstance(inner, str) and len(value) == 1:
        return parse_json(inner.encode("utf-8", "surrogatepass"), "the form's payload")
    return value

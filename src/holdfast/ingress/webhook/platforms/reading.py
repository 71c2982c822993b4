"""Read the payload of a platform. Any field may be missing or have another type than documented."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping

from holdfast.domain.canonical import dump_json
from holdfast.domain.errors import BadInput, BadJson
from holdfast.domain.event import NAME_MAX, PROPERTIES_BYTES_MAX, check_timestamp, iso_time
from holdfast.domain.json_value import Json, JsonObject
from holdfast.domain.text import short_repr
from holdfast.ingress.webhook.lenient_json import read_json

TEXT_MAX = 2000
NUMBER_MAX = 10**30
TYPE_PART_MAX = 100
_TYPE_DOTS = re.compile(r"[/:.]+")
_NOT_TYPE = re.compile(r"[^A-Za-z0-9_.:/@+-]+")
_TIME_MAX_S = 32503680000  # the year 3000


def dig(value: Json, *path: str | int) -> Json:
    """The value at the path, or None.

    >>> dig({"a": [{"b": 1}]}, "a", 0, "b"), dig({"a": "text"}, "a", "b")
    (1, None)
    """
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def items(value: Json, *path: str | int) -> Iterator[Json]:
    """The items of the list at the path; none if there is no list."""
    found = dig(value, *path)
    yield from found if isinstance(found, list) else ()


def text(value: Json, *path: str | int) -> str | None:
    """A text or a number at the path as text; None for anything else."""
    found = dig(value, *path)
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        return None
    return str(found)


def at_path(value: Json, path: str) -> str | None:
    """The text or number at a path such as `data.object.id`; None for anything else.

    >>> at_path({"action": {"type": "updateCard"}}, "action.type")
    'updateCard'
    """
    return text(value, *path.split("."))


def properties(**values: Json) -> dict[str, Json]:
    """Properties of an event. Missing values are left out and long texts are cut; the payload has them in full."""
    found: dict[str, Json] = {}
    for name, value in values.items():
        if isinstance(value, str):
            found[name] = value[:TEXT_MAX]
        elif isinstance(value, bool | int | float):
            found[name] = value
        elif isinstance(value, list) and value:
            found[name] = [str(item)[:TYPE_PART_MAX] for item in value[:20]]
    return fitted(found)


def sent_by(
    actor_id: str | None,
    *,
    name: str | None = None,
    login: str | None = None,
    association: str | None = None,
    channel: str | None = None,
    message: str | None = None,
    thread: str | None = None,
    headline: str | None = None,
    text_path: str | None = None,
    edited: bool = False,
) -> dict[str, Json]:
    """Properties that say who sent a text, for contracts that send it to an agent session.

    `login` is a name that the platform keeps unique, `association` how the author relates to the repository. `headline`
    says in a few words what happened, and `text_path` where the text is in the payload. `edited`: the text is not new.
    """
    given: dict[str, Json] = {
        "actor_id": actor_id,
        "actor_name": name,
        "actor_login": login,
        "author_association": association,
        "channel_id": channel,
        "message_id": message,
        "thread": thread,
        "headline": headline,
        "text_path": text_path,
        "edited": edited or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def fitted(values: Mapping[str, Json]) -> dict[str, Json]:
    """The properties within the size limit of an event: the longest texts are halved until they fit.

    A character may take six bytes, so even short texts can exceed the limit together.
    """
    found = {name: value for name, value in values.items() if not _is_huge(value)}
    while len(dump_json(found, "properties")) > PROPERTIES_BYTES_MAX:
        longest = max(found, key=lambda name: _length(found[name]))
        value = found[longest]
        if isinstance(value, str | list) and len(value) > 1:
            found[longest] = value[: len(value) // 2]
        else:
            del found[longest]
    return found


def _length(value: Json) -> int:
    return len(value) if isinstance(value, str | list) else 0


def _is_huge(value: Json) -> bool:
    return isinstance(value, int) and not -NUMBER_MAX < value < NUMBER_MAX


def event_type(platform: str, *parts: str | None) -> str:
    """An event type from the words of a platform.

    >>> event_type("shop", "order", "paid"), event_type("shop", "event", None, "weird name!")
    ('shop.order.paid', 'shop.event.weird_name')
    >>> event_type("shop", ";")
    'shop.unknown'
    """
    clean = [_NOT_TYPE.sub("_", part[:TYPE_PART_MAX]).strip("_.") for part in parts if part]
    words = ".".join(part for part in clean if part) or "unknown"
    return f"{_NOT_TYPE.sub('_', platform).strip('_.') or 'inbound'}.{words}"[:NAME_MAX]


def type_words(name: str) -> str:
    """The name of an event as part of a type: lower case, with dots for the platform's separators.

    >>> [type_words(name) for name in ("orders/create", "Merge Request Hook", "repo:push")]
    ['orders.create', 'merge_request_hook', 'repo.push']
    """
    return _NOT_TYPE.sub("_", _TYPE_DOTS.sub(".", name.strip()[:TYPE_PART_MAX].lower())).strip("_.")


def stream(platform: str, *parts: str | None) -> str:
    """The name of a stream; without parts, the name of the platform."""
    words = [part for part in parts if part]
    name = ":".join([platform, *words])
    clean = "".join(char if char.isprintable() else "_" for char in name).strip()
    return clean if len(clean) <= NAME_MAX else clean[:NAME_MAX].strip()


def unix_time(value: Json) -> str | None:
    """RFC 3339 from Unix seconds, as a number or as text; None if it is not a valid time."""
    if isinstance(value, str):
        try:
            value = float(value) if len(value) < 30 and value.isascii() else None
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _TIME_MAX_S:
        return None
    return iso_time(round(value * 1000))


def unix_ms(value: Json) -> str | None:
    """RFC 3339 from Unix milliseconds; None if it is not a valid time."""
    return unix_time(value / 1000) if isinstance(value, int) and not _is_huge(value) else None


def rfc3339(value: Json) -> str | None:
    """The time if it is valid RFC 3339, else None."""
    try:
        return check_timestamp(value)
    except BadInput:
        return None


def object_of(value: Json, platform: str) -> JsonObject:
    """The payload as an object. `BadInput` for anything else, which the platform never sends."""
    if not isinstance(value, dict):
        raise BadInput(f"a {platform} payload must be a JSON object, not {short_repr(value)}")
    return value


def unwrap_form(value: Json) -> Json:
    """The JSON in the field `payload` of a form, if the platform sends JSON that way; else the value unchanged."""
    inner = dig(value, "payload")
    if not isinstance(value, dict) or not isinstance(inner, str) or len(value) != 1:
        return value
    try:
        found = read_json(inner, "the form's payload")
    except BadJson:
        return value
    return found if isinstance(found, dict) else value


def fingerprint(*values: Json) -> str:
    """A delivery id for a sender that gives none: the same content is the same delivery."""
    return "sha256:" + hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

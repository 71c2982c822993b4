"""Event: an immutable fact. A caller creates a `NewEvent`; the store returns an `Event`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from holdfast.domain.address import parse_address
from holdfast.domain.canonical import BYTES_MAX, dump_json
from holdfast.domain.errors import BadInput
from holdfast.domain.json_value import DEPTH_MAX, Json, KnownJson
from holdfast.domain.text import short_repr
from holdfast.domain.trace import without_traceparent

SOURCE_DEFAULT = "app"
NAME_MAX = 255
PROPERTIES_MAX = 64
PROPERTIES_BYTES_MAX = 16 * 1024
RAW_MAX = 1000

Scalar = str | int | float | bool | None
Properties = Mapping[str, Scalar | list[str]]

_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})?")
_TYPE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]*")


class NewEvent(NamedTuple):
    """An event that is not stored yet. Build it with `new_event`, which checks every field."""

    type: str
    payload: bytes
    source: str = SOURCE_DEFAULT
    stream: str | None = None
    timestamp: str | None = None
    properties: bytes = b"{}"
    dedup_key: str | None = None
    to: str | None = None
    not_before_ms: int | None = None
    id: str | None = None

    @property
    def digest(self) -> str:
        """Must be equal when a dedup key is used again."""
        parts = (self.type, self.stream or "", self.to or "", str(self.not_before_ms or ""))
        head = "\n".join(f"{len(part)}:{part}" for part in parts).encode()
        properties = without_traceparent(self.properties)
        return hashlib.sha256(head + b"\n" + properties + b"\n" + self.payload).hexdigest()


class Event:
    """A stored event. `properties` and `payload` are parsed from the stored bytes at first use."""

    __slots__ = (
        "_payload", "_properties", "accepted_at_ms", "id", "n", "payload_json", "properties_json",
        "seq", "source", "stream", "timestamp", "to", "type",
    )  # fmt: skip

    def __init__(
        self,
        n: int,
        id: str,
        stream: str | None,
        seq: int,
        source: str,
        type: str,
        timestamp: str,
        accepted_at_ms: int,
        properties_json: str,
        payload_json: str,
        to: str | None = None,
    ) -> None:
        self.n = n
        self.id = id
        self.stream = stream if stream is not None else id
        self.seq = seq
        self.source = source
        self.type = type
        self.timestamp = timestamp
        self.accepted_at_ms = accepted_at_ms
        self.properties_json = properties_json
        self.payload_json = payload_json
        self.to = to
        self._properties: dict[str, Json] | None = None
        self._payload: KnownJson = _UNREAD

    @property
    def properties(self) -> dict[str, Json]:
        if self._properties is None:
            try:
                self._properties = {} if self.properties_json == "{}" else json.loads(self.properties_json)
            except (ValueError, RecursionError):  # inserted by plain SQL: it matches no property
                self._properties = {}
        return self._properties

    @property
    def payload(self) -> KnownJson:
        if self._payload is _UNREAD:
            self._payload = json.loads(self.payload_json)
        return self._payload

    def __repr__(self) -> str:
        return f"Event({self.id}, {self.type!r}, stream={self.stream!r}, seq={self.seq})"

    def as_dict(self) -> dict[str, KnownJson]:
        """The JSON object that every interface shows."""
        return {
            "id": self.id,
            "stream": self.stream,
            "seq": self.seq,
            "source": self.source,
            "type": self.type,
            "timestamp": self.timestamp,
            "accepted_at": iso_time(self.accepted_at_ms),
            "properties": _shown(self.properties_json),
            "payload": _shown(self.payload_json),
        }

    def body(self) -> bytes:
        """The body of a webhook. The stored payload is inserted unchanged, never serialized again."""
        text = (
            f'{{"id":{_quote(self.id)},"payload":{self.payload_json},"properties":{self.properties_json},'
            f'"seq":{self.seq},"source":{_quote(self.source)},"stream":{_quote(self.stream)},'
            f'"timestamp":{_quote(self.timestamp)},"type":{_quote(self.type)}}}'
        )
        return text.encode("utf-8")


class Appended(NamedTuple):
    """The result of appending an event. With `duplicate`, the event is an earlier one with the same dedup key."""

    id: str
    stream: str
    seq: int
    duplicate: bool = False

    def as_dict(self) -> dict[str, Json]:
        return {"id": self.id, "stream": self.stream, "seq": self.seq, "duplicate": self.duplicate}


def new_event(
    type: str,
    payload: object = None,
    *,
    source: str = SOURCE_DEFAULT,
    stream: str | None = None,
    timestamp: str | datetime | None = None,
    properties: Mapping[str, object] | None = None,
    dedup_key: str | None = None,
    to: str | None = None,
    at: datetime | None = None,
    id: str | None = None,
) -> NewEvent:
    """Check every field of an event, and convert it to the stored form.

    >>> new_event("order.placed", {"id": 42}, stream="order:42").payload
    b'{"id":42}'
    """
    if at is not None and stream is not None:
        raise BadInput("at= cannot be combined with stream=: a delayed event would hold up its ordered stream")
    if to is not None:
        parse_address(to)
    if id is not None and not _ID.fullmatch(id):
        raise BadInput(f"id {short_repr(id)} is not valid: use 1 to 80 letters, digits, _ and -")
    return NewEvent(
        type=check_type(type),
        payload=dump_json(payload, "payload"),
        source=SOURCE_DEFAULT if source is SOURCE_DEFAULT else check_name(source, "source"),
        stream=None if stream is None else check_name(stream, "stream"),
        timestamp=None if timestamp is None else check_timestamp(timestamp),
        properties=b"{}" if properties is None else check_properties(properties),
        dedup_key=None if dedup_key is None else check_name(dedup_key, "dedup_key"),
        to=to,
        not_before_ms=None if at is None else _epoch_ms(_moment(at)),
        id=id,
    )


def check_type(value: object) -> str:
    if not isinstance(value, str) or not _TYPE.fullmatch(value) or len(value) > NAME_MAX:
        raise BadInput(
            f"type {short_repr(value)} is not a valid event type: use 1 to {NAME_MAX} letters, digits and . _ - : / @ +"
        )
    return value


def check_name(value: object, what: str) -> str:
    """A name chosen by a user: printable text without control characters or outer spaces."""
    if not isinstance(value, str) or not value:
        raise BadInput(f"{what} must be a non-empty string, not {short_repr(value)}")
    if len(value) > NAME_MAX:
        raise BadInput(f"{what} is {len(value)} characters long; the limit is {NAME_MAX}")
    if not value.isprintable() or value != value.strip():
        raise BadInput(f"{what} {short_repr(value)} contains control characters or outer spaces; remove them")
    return value


def check_properties(properties: Mapping[str, object]) -> bytes:
    if not isinstance(properties, Mapping):
        raise BadInput(f"properties must be an object of names and values, not {short_repr(properties)}")
    if len(properties) > PROPERTIES_MAX:
        raise BadInput(f"properties has {len(properties)} names; the limit is {PROPERTIES_MAX}")
    if not properties:
        return b"{}"
    for name, value in properties.items():
        check_name(name, "a property name")
        if isinstance(value, list):
            if not all(isinstance(item, str) for item in value):
                raise BadInput(f"property {name!r} is a list with items other than strings")
        elif not isinstance(value, str | int | float | bool | None):
            raise BadInput(f"property {name!r} must be a string, number, boolean, null or list of strings")
    return dump_json(dict(properties), "properties", PROPERTIES_BYTES_MAX)


def check_timestamp(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        return iso_time(_epoch_ms(value))
    text = value if isinstance(value, str) and _TIME.fullmatch(value) else None
    try:
        moment = None if text is None else datetime.fromisoformat(text.upper())
    except ValueError:
        moment = None
    if text is None or moment is None:
        raise BadInput(f"timestamp {short_repr(value)} is not RFC 3339, such as 2026-01-31T12:00:00Z")
    return text if moment.tzinfo else text + "Z"


def parse_time(value: object, what: str) -> int:
    """The UTC milliseconds of an RFC 3339 time.

    >>> parse_time("2023-11-14T22:13:20.123Z", "at")
    1700000000123
    """
    try:
        text = check_timestamp(value)
    except BadInput as error:
        raise BadInput(error.message.replace("timestamp", what, 1)) from None
    if text is None:
        raise BadInput(f"{what} is missing")
    return _epoch_ms(datetime.fromisoformat(text.upper()))


def iso_time(ms: int) -> str:
    """
    >>> iso_time(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    return f"{_iso_second(ms // 1000)}{ms % 1000:03d}Z"


@lru_cache(maxsize=64)
def _iso_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.")


def _shown(text: str) -> Json:
    """The value of stored JSON, or what is wrong with it: plain SQL can insert text that is not valid JSON."""
    try:
        value: Json = json.loads(text)
        dump_json(value, "it", limit=2 * len(text) + BYTES_MAX)
    except BadInput as error:
        reason = error.message
    except RecursionError:
        reason = f"it is nested deeper than {DEPTH_MAX} levels"
    except ValueError:
        reason = "it is not valid JSON"
    else:
        return value
    return {"unreadable": reason, "raw": ascii(text[:RAW_MAX])[1:-1]}


def _moment(at: object) -> datetime:
    if not isinstance(at, datetime):
        raise BadInput(f"at must be a datetime with a time zone, not {short_repr(at)}")
    return at


def _epoch_ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise BadInput(f"the time {moment.isoformat()} has no time zone; use datetime.now(timezone.utc)")
    if not 1970 <= moment.year <= 9000:
        raise BadInput(f"the time {moment.isoformat()} is out of range")
    return round(moment.timestamp() * 1000)


# The same as `json.dumps` of a text, ten times faster.
_quote = json.encoder.encode_basestring


_UNREAD = object()

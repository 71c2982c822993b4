"""The trace context of an event: the property `traceparent` (W3C Trace Context), carried as plain text.

It says who caused an event and is no part of what happened, so it does not count when a dedup key is used again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

TRACEPARENT = "traceparent"

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_MEMBER = re.compile(rb'"traceparent":"[^"\\]*",?')


class TraceParent(NamedTuple):
    """Ids of a trace and of the span that caused the event. `flags`: bit 0 means that the trace is recorded."""

    trace_id: int
    span_id: int
    flags: int


def parse_traceparent(text: object) -> TraceParent | None:
    """
    >>> parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").flags
    1
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[1] == "ff":
        return None
    parent = TraceParent(int(found[2], 16), int(found[3], 16), int(found[4], 16))
    return parent if parent.trace_id and parent.span_id else None


def traceparent_of(properties: Mapping[str, object]) -> str | None:
    """The trace context in the properties of an event, if it is valid."""
    text = properties.get(TRACEPARENT)
    return text if isinstance(text, str) and parse_traceparent(text) is not None else None


def without_traceparent(properties: bytes) -> bytes:
    """Canonical JSON of properties, without the trace context.

    >>> without_traceparent(b'{"a":1,"traceparent":"00-x"}')
    b'{"a":1}'
    """
    if b'"traceparent"' not in properties:
        return properties
    rest = _MEMBER.sub(b"", properties, count=1)
    return rest[:-2] + b"}" if rest.endswith(b",}") else rest

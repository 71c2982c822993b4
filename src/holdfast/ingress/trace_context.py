"""The trace context of the code that publishes, if it is traced with OpenTelemetry. Nothing is imported for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from holdfast.domain.trace import TRACEPARENT, parse_traceparent


def current_traceparent() -> str | None:
    """The span that is active here, as `traceparent`; None without OpenTelemetry or without a span."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    span = trace.get_current_span().get_span_context()
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}" if span.is_valid else None


def with_traceparent(fields: Mapping[str, object], traceparent: str | None) -> Mapping[str, object]:
    """The fields of an event, with this trace context among the properties unless they have one."""
    if parse_traceparent(traceparent) is None:
        return fields
    properties = fields.get("properties")
    if properties is None:
        return {**fields, "properties": {TRACEPARENT: traceparent}}
    if not isinstance(properties, Mapping) or TRACEPARENT in properties:
        return fields  # wrong properties are refused where they are checked
    return {**fields, "properties": {**properties, TRACEPARENT: traceparent}}

"""Spans for events that carry a trace context, if the process has an OpenTelemetry provider.

Spans are made after the fact, batch by batch, with times that were measured anyway: an event without a trace context
costs nothing, and neither does any event without a provider.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

from holdfast.domain.delivery import Settlement
from holdfast.domain.event import Event, NewEvent
from holdfast.domain.states import State
from holdfast.domain.trace import TRACEPARENT, TraceParent, parse_traceparent
from holdfast.ports import NO_TRACING, Tracing
from holdfast.version import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind, Tracer, TracerProvider

MS_NS = 1_000_000


def find_tracing() -> Tracing:
    """Tracing with the provider that this process has set; none if there is no provider."""
    if "opentelemetry.trace" not in sys.modules:
        return NO_TRACING
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return NO_TRACING
    return OtelTracing(provider)


class OtelTracing:
    """Implements `Tracing`."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer: Tracer = provider.get_tracer("holdfast", __version__)

    def accepted(self, event: NewEvent, id: str, started_ns: int) -> None:
        if TRACEPARENT.encode() not in event.properties:
            return
        from holdfast.domain.canonical import parse_json

        properties = parse_json(event.properties, "the properties", len(event.properties))
        parent = parse_traceparent(properties.get(TRACEPARENT)) if isinstance(properties, dict) else None
        if parent is not None:
            self._span("accept", parent, started_ns, {"event_id": id, "event_type": event.type})

    def routed(self, events: Sequence[Event], started_ns: int) -> None:
        for event in events:
            if (parent := _parent_of(event)) is not None:
                self._span("route", parent, started_ns, _facts_of(event))

    def settled(self, settlements: Sequence[Settlement], lost: Set[int], now_ms: int) -> None:
        for settlement in settlements:
            parent = _parent_of(settlement.claim.event)
            if parent is None or settlement.claim.delivery.id in lost:
                continue
            transition, claim = settlement.transition, settlement.claim
            facts = {
                **_facts_of(claim.event),
                "delivery_id": claim.delivery.id,
                "contract": claim.delivery.contract_id or "",
                "attempt": transition.attempts,
                "outcome": settlement.outcome,
            }
            error = None if transition.state is State.DELIVERED else transition.error
            started_ns = settlement.started_at_ms * MS_NS
            self._span("attempt", parent, started_ns, facts, now_ms * MS_NS, error, client=True)
            facts["state"] = transition.state.value
            self._span("settle", parent, now_ms * MS_NS, facts)

    def _span(
        self,
        name: str,
        parent: TraceParent,
        started_ns: int,
        facts: Mapping[str, str | int],
        ended_ns: int | None = None,
        error: str | None = None,
        client: bool = False,
    ) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        kind: SpanKind = SpanKind.CLIENT if client else SpanKind.INTERNAL
        attributes = {f"holdfast.{key}": value for key, value in facts.items()}
        span = self._tracer.start_span(
            name, context=_context(parent), kind=kind, attributes=attributes, start_time=started_ns
        )
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error[:200]))
        span.end(max(started_ns, time.time_ns() if ended_ns is None else ended_ns))


def _facts_of(event: Event) -> dict[str, str | int]:
    return {"event_id": event.id, "event_type": event.type}


def _parent_of(event: Event) -> TraceParent | None:
    return parse_traceparent(event.properties.get(TRACEPARENT)) if TRACEPARENT in event.properties_json else None


def _context(parent: TraceParent) -> Context:
    from opentelemetry import trace

    flags = trace.TraceFlags(parent.flags)
    remote = trace.SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(remote))

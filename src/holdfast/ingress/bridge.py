"""The bridge: an event bus for a host application, whose events become durable facts that contracts see.

The bus itself is nothing but a list of listeners; what survives is what the bridge appended. `emit` returns once the
event is accepted, and raises if it is not: the application knows which of its words survive.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any

from holdfast.domain.agent_events import agent_activity, agent_event, error_event, session_event
from holdfast.domain.errors import BadInput
from holdfast.domain.event import Appended, NewEvent
from holdfast.domain.text import short_repr
from holdfast.store.base import Events

Listener = Callable[["BusEvent", Mapping[str, Any]], Awaitable[None]]


class BusEvent(StrEnum):
    """What a host application can say."""

    SESSION_STARTED = "SESSION_STARTED"
    SESSION_CLOSED = "SESSION_CLOSED"
    SESSION_UPDATED = "SESSION_UPDATED"
    AGENT_EVENT = "AGENT_EVENT"
    AGENT_ACTIVITY = "AGENT_ACTIVITY"
    ERROR = "ERROR"


class EventBus:
    """Listeners of one process, called in the order in which they came."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def emit(self, event: BusEvent | str, **context: Any) -> None:
        known = _kind(event)
        for listener in self._listeners:
            await listener(known, context)


class Bridge:
    """Appends what is said on a bus. `register` it once."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def register(self, bus: EventBus) -> None:
        bus.subscribe(self.append)

    async def append(self, event: BusEvent | str, context: Mapping[str, Any]) -> None:
        await self.accept(event, context)

    async def accept(self, event: BusEvent | str, context: Mapping[str, Any]) -> Appended:
        return (await self._events.append([normalize(event, context)]))[0]


def normalize(event: BusEvent | str, context: Mapping[str, Any]) -> NewEvent:
    """The fact that a word on the bus becomes; what the context holds beside the properties is its payload."""
    kind = _kind(event)
    rest = {name: value for name, value in context.items() if name not in ("session_id", "tool_name")}
    match kind:
        case BusEvent.SESSION_STARTED | BusEvent.SESSION_CLOSED | BusEvent.SESSION_UPDATED:
            return session_event(kind.value.removeprefix("SESSION_").lower(), _session(context), rest)
        case BusEvent.AGENT_EVENT:
            return agent_event(_text(context, "event_type"), _session(context), rest)
        case BusEvent.AGENT_ACTIVITY:
            tool = context.get("tool_name")
            return agent_activity(_text(context, "event_type"), _session(context), rest, tool_name=tool)
        case BusEvent.ERROR:
            return error_event(
                rest,
                session_id=context.get("session_id"),
                severity=context.get("severity") or "error",
                error_source=context.get("error_source") or context.get("source") or "application",
                error_code=context.get("error_code") or context.get("code") or "UNKNOWN",
            )


def _kind(event: BusEvent | str) -> BusEvent:
    try:
        return BusEvent(str(event).upper())
    except ValueError:
        raise BadInput(f"{short_repr(event)} is no event of the bus; use one of {', '.join(BusEvent)}") from None


def _session(context: Mapping[str, Any]) -> str:
    return _text(context, "session_id")


def _text(context: Mapping[str, Any], name: str) -> str:
    value = context.get(name)
    if not isinstance(value, str) or not value:
        raise BadInput(f"{name} is missing: the event must say which")
    return value

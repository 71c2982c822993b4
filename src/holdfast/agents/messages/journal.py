"""The journal of a delivery: what was done for a message, recorded before it is done.

A process may be killed at any moment. The next one reads from the journal whether a paste or a key may have happened,
and so never repeats one of which it does not know the outcome. The entries are events on the stream of the session:
`message.delivering` before the paste (step `paste`) and before the key (step `submit`), `message.sent` after it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from holdfast.agents.messages.session_message import SessionMessage
from holdfast.domain.event import parse_time
from holdfast.domain.json_value import Json, JsonObject
from holdfast.domain.message import EXPIRED, FAILED, SENT
from holdfast.domain.session import Session, SessionState
from holdfast.ports import Clock
from holdfast.store.roles.events import Events

KNOWN_MAX = 10_000


class DeliveryTrail(NamedTuple):
    """What the journal says about one message.

    `begun` counts how often it was begun: again only if it surely did not arrive, such as in a pane that died before
    the key. `place` names where the message went (a pane, a queue), `session_id` whose prompt hooks confirm it,
    `after_seq` the last event of that session before. `busy`: the agent was working then.
    """

    begun: int = 0
    begun_ms: int = 0
    place: str = ""
    session_id: str = ""
    after_seq: int = 0
    busy: bool = False
    submitting: bool = False
    sent_ms: int | None = None


class Journal:
    """Reads and writes the trails of messages. Those of this process are kept in memory too."""

    def __init__(self, events: Events, clock: Clock) -> None:
        self._events, self._clock = events, clock
        self._known: OrderedDict[str, DeliveryTrail] = OrderedDict()

    async def read(self, message: SessionMessage, first: bool) -> DeliveryTrail:
        """The trail of a message. `first`: this is its first attempt, so it has none."""
        known = self._known.get(message.mark)
        if known is not None:
            return known
        return self._keep(message, DeliveryTrail() if first else await self._read(message))

    async def begin(self, message: SessionMessage, trail: DeliveryTrail, session: Session, place: str) -> DeliveryTrail:
        """Record that the message is about to be given to a session."""
        stream = await self._events.stream(session.stream)
        trail = DeliveryTrail(
            trail.begun + 1,
            self._clock.now_ms(),
            place,
            session.id,
            0 if stream is None else stream.head,
            session.state is SessionState.WORKING,
        )
        more: JsonObject = {"place": place, "session_id": session.id, "after_seq": trail.after_seq, "busy": trail.busy}
        await self._append(message, "paste", trail.begun, **more)
        return self._keep(message, trail)

    async def submitting(self, message: SessionMessage, trail: DeliveryTrail) -> DeliveryTrail:
        """Record that the key is about to be pressed."""
        if trail.submitting:
            return trail
        await self._append(message, "submit", trail.begun)
        return self._keep(message, trail._replace(submitting=True))

    async def sent(self, message: SessionMessage, trail: DeliveryTrail) -> DeliveryTrail:
        """Record that the message was submitted."""
        if trail.sent_ms is not None:
            return trail
        await self._signal(message, SENT)
        return self._keep(message, trail._replace(sent_ms=self._clock.now_ms()))

    async def failed(self, message: SessionMessage, reason: str) -> None:
        """Record that the message will not arrive."""
        await self._signal(message, FAILED, reason)

    async def expired(self, message: SessionMessage) -> None:
        """Record that its session was closed before."""
        await self._signal(message, EXPIRED, "the session was closed")

    def forget(self, message: SessionMessage) -> None:
        self._known.pop(message.mark, None)

    async def _append(self, message: SessionMessage, step: str, begun: int, **more: Json) -> None:
        event = message.step(self._clock.now_ms(), step=step, **more)
        await self._events.append([event._replace(id=_id(message, step, begun))])

    async def _signal(self, message: SessionMessage, type: str, reason: str | None = None) -> None:
        event = message.signal(type, self._clock.now_ms(), reason)
        await self._events.append([event._replace(id=_id(message, type.rpartition(".")[2]))])

    async def _read(self, message: SessionMessage) -> DeliveryTrail:
        trail = DeliveryTrail()
        while (entry := await self._events.get(_id(message, "paste", trail.begun + 1))) is not None:
            found = entry.payload if isinstance(entry.payload, dict) else {}
            trail = DeliveryTrail(
                trail.begun + 1,
                parse_time(entry.timestamp, "timestamp"),
                str(found.get("place") or ""),
                str(found.get("session_id") or message.session_id),
                _number(found.get("after_seq")),
                found.get("busy") is True,
            )
        if not trail.begun:
            return trail
        submitting = await self._events.get(_id(message, "submit", trail.begun)) is not None
        sent = await self._events.get(_id(message, "sent"))
        return trail._replace(
            submitting=submitting, sent_ms=None if sent is None else parse_time(sent.timestamp, "timestamp")
        )

    def _keep(self, message: SessionMessage, trail: DeliveryTrail) -> DeliveryTrail:
        self._known[message.mark] = trail
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return trail


def _id(message: SessionMessage, step: str, begun: int = 1) -> str:
    """The id of an entry. It is fixed, so that an entry is found without a search and is never written twice."""
    return f"evt_delivery-{message.delivery_id}-{message.generation}-{step}-{begun}"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0

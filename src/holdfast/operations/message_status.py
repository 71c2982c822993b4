"""The status of a message: what a sender needs to know of its delivery."""

from __future__ import annotations

from holdfast.domain.errors import BadInput
from holdfast.domain.event import Event, iso_time
from holdfast.domain.message import Message, read_message
from holdfast.domain.session import STREAM_PREFIX
from holdfast.domain.states import Reason, State
from holdfast.operations.answers.fields import time_or_none
from holdfast.operations.answers.messages import MessageAnswer
from holdfast.store.roles.operator import AttemptRow, DeliveryFilter, DeliveryRow
from holdfast.store.roles.store import Store

FOLLOWED_MAX = 10


class MessageStatuses:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def show(self, event: Event) -> MessageAnswer:
        """The status of a message; of one that was passed on to another session, the status there."""
        now, row = event, await self._delivery(event)
        attempts = [] if row is None else await self._store.operator.attempts(row.id)
        for _ in range(FOLLOWED_MAX):
            passed_on = attempts[-1].detail if attempts and row and row.state == State.DELIVERED else None
            following = await self._store.events.get(str((passed_on or {}).get("message")))
            if following is None:
                break
            now, row = following, await self._delivery(following)
            attempts = [] if row is None else await self._store.operator.attempts(row.id)
        message = _message(now) or _message(event)
        is_found = now.to == now.stream
        return MessageAnswer(
            id=event.id,
            session=now.stream.removeprefix(STREAM_PREFIX) if is_found else None,
            status=status_of(row, attempts),
            attempts=0 if row is None else row.attempts,
            last_error=None if row is None else row.last_error,
            reason=None if row is None else row.reason,
            origin=event.source if message is None else message.origin,
            message_type="text" if message is None else message.message_type,
            content="" if message is None else message.content,
            accepted_at=iso_time(event.accepted_at_ms),
            ended_at=None if row is None else time_or_none(row.settled_at_ms),
        )

    async def _delivery(self, event: Event) -> DeliveryRow | None:
        """The delivery to the session, or to the handler that looks for it; None before the event is routed."""
        page = await self._store.operator.deliveries(DeliveryFilter(event=event.id), None, FOLLOWED_MAX)
        return next((row for row in page.items if row.contract_id is None), None)


def status_of(row: DeliveryRow | None, attempts: list[AttemptRow]) -> str:
    """What a sender needs to know of a delivery's state."""
    if row is None:
        return "queued"
    last = attempts[-1] if attempts else None
    match State(row.state):
        case State.PENDING:
            is_sent = row.waits_for == "confirmation" or (last is not None and last.outcome == "handed")
            return "sent" if is_sent else "queued"
        case State.DELIVERED:
            confirmed = (last.detail or {}).get("confirmed") if last is not None else None
            return "unconfirmed" if confirmed is False else "accepted"
        case State.DEAD:
            return "unconfirmed" if row.reason == Reason.UNCONFIRMED else "dead"
        case State.DROPPED:
            return "expired" if row.reason == Reason.EXPIRED else "cancelled"


def _message(event: Event) -> Message | None:
    try:
        return read_message(event.payload)
    except BadInput:
        return None

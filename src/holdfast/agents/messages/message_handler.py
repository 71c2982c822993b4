"""The handler `messages`: turns an event into a message for a session, as an effect of its own settle.

It gets the events of contracts with a session as target, and events addressed to `session:…` whose session has to be
found first. A contract's sender is checked, and its text framed; an event that was addressed directly came from a
caller who may write to sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.agents.messages.frame import describe, frame
from holdfast.agents.messages.resolve import Place, Resolver
from holdfast.agents.messages.text import check_content, is_command
from holdfast.domain.contract import Contract
from holdfast.domain.delivery import Dead, Delivered, Delivery, Dropped, Outcome, Retry
from holdfast.domain.errors import Ambiguous, BadInput, Conflict, NotFound
from holdfast.domain.event import Event
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.json_value import Json, without_none
from holdfast.domain.message import HOPS_MAX, QUEUED, SOURCE, Message, message_event, message_key, read_message
from holdfast.domain.retry import POLICIES
from holdfast.domain.senders import Sender
from holdfast.domain.session import STREAM_PREFIX, Session
from holdfast.domain.states import Reason
from holdfast.domain.text import clip_text
from holdfast.ports import Chance, Clock
from holdfast.store.roles.events import Events
from holdfast.store.roles.gates import Gates

SESSION_WAIT_MS = 3600 * 1000
"""How long an event waits for a session that does not exist yet, or is closed."""
MESSAGES_PER_HOUR = 60
WORD_MAX = 200

COMMAND = "it begins like a command of the agent CLI; send it with command: true, or put a word in front"


class MessageHandler:
    """`contract_of`: a contract in force, by its id."""

    def __init__(
        self,
        events: Events,
        gates: Gates,
        resolver: Resolver,
        contract_of: Callable[[str], Contract | None],
        clock: Clock,
        chance: Chance,
    ) -> None:
        self._events, self._gates, self._resolver, self._contract_of = events, gates, resolver, contract_of
        self._clock, self._chance = clock, chance

    async def handle(self, event: Event, delivery: Delivery) -> Outcome:
        contract = None if delivery.contract_id is None else self._contract_of(delivery.contract_id)
        if contract is None and delivery.contract_id is not None:
            return Retry(f"contract {delivery.contract_id} is not loaded yet")
        if contract is None:
            wanted, hops = (event.to or "").removeprefix(STREAM_PREFIX), _hops(event)
        else:
            wanted, hops = contract.session or "", _hops(event)
            if (refusal := self._refuse(event, contract)) is not None:
                return refusal
        if hops > HOPS_MAX:
            return Dropped(Reason.LOOP)
        try:
            message = _direct_message(event, hops) if contract is None else _framed_message(event, contract, hops)
            session = await self._resolver.resolve(wanted, _place(event, message))
        except BadInput as error:
            return Dead(Reason.REJECTED, error.message)
        except (NotFound, Conflict) as error:
            return self._unresolved(event, delivery, error)
        return await self._queue(event, contract, session, message)

    def _refuse(self, event: Event, contract: Contract) -> Outcome | None:
        """An event of a sender who is not listed, or a text that was changed after it was first sent."""
        is_edit = event.properties.get("edited") is True
        if is_edit or contract.senders is None or not contract.senders.allows(sender_of(event)):
            return Dropped(Reason.SENDER_REFUSED)
        return None

    async def _over_limit(self, contract: Contract) -> Outcome | None:
        """Count one more message of the contract. If it has sent too many in the last hour, this one has to wait."""
        limit = messages_per_hour(contract.rate)
        wait_ms = await self._gates.take(f"contract:{contract.id}", limit)
        if not wait_ms:
            return None
        return Retry(f"contract {contract.id} has sent {limit} messages within an hour, its limit", wait_ms / 1000)

    def _unresolved(self, event: Event, delivery: Delivery, error: NotFound | Conflict) -> Outcome:
        if isinstance(error, Ambiguous):
            return Dead(Reason.AMBIGUOUS, error.message)
        if self._clock.now_ms() - event.accepted_at_ms >= SESSION_WAIT_MS:
            return Dead(Reason.NO_SESSION, error.message)
        schedule_s = POLICIES["message"].schedule_s
        return Retry(error.message, after_s=schedule_s[min(delivery.attempts, len(schedule_s) - 1)])

    async def _queue(self, event: Event, contract: Contract | None, session: Session, message: Message) -> Outcome:
        key = message.dedup_key if contract is None else _contract_key(event, message, session)
        known = None if key is None else await self._events.with_key(SOURCE, key)
        if known is not None:
            return Delivered(detail={"message": known, "session": session.id, "duplicate": True})
        if contract is not None and (limited := await self._over_limit(contract)) is not None:
            return limited
        id = make_id("evt", self._clock.now_ms(), self._chance.entropy(ENTROPY_BYTES))
        queued = message_event(session.id, message, id=id, key=key or message_key("event", event.id))
        return Delivered(effects=[queued], detail={"message": id, "session": session.id})


def messages_per_hour(rate: str | None) -> int:
    """How many events of a contract may become messages in an hour.

    >>> messages_per_hour(None), messages_per_hour("2/m")
    (60, 120)
    """
    count, _, unit = (rate or f"{MESSAGES_PER_HOUR}/h").partition("/")
    return int(count) * {"s": 3600, "m": 60, "h": 1}[unit]


def sender_of(event: Event) -> Sender:
    """The sender of an event as its normalizer named it; for an event of an agent, the session it comes from."""
    given = event.properties
    if event.source in ("agent", SOURCE):
        return Sender(event.source, _text(given.get("session_id")), channel=_text(given.get("session_id")))
    names = ("actor_id", "actor_login", "author_association", "channel_id")
    return Sender(event.source, *(_text(given.get(name)) for name in names))


def _direct_message(event: Event, hops: int) -> Message:
    """The message in an event that names its session: a message, a text, or any event in readable form."""
    payload = event.payload
    if isinstance(payload, str):
        payload = {"content": payload}
    if not isinstance(payload, Mapping) or "content" not in payload:
        payload = {"content": "\n".join(filter(None, describe(event)))}
    message = read_message({"origin": event.source, **payload, "hops": hops})
    content = check_content(message.content)
    if is_command(content) and not message.command:
        raise BadInput(COMMAND)
    return read_message({**message.as_payload(), "content": content})


def _framed_message(event: Event, contract: Contract, hops: int) -> Message:
    given = event.properties
    about = {"event": event.id, "type": event.type, "contract": contract.id, "thread": given.get("thread")}
    return Message(
        check_content(frame(event, contract.template)),
        origin=event.source,
        source_message_id=_text(given.get("message_id")) or event.id,
        source_channel_id=_text(given.get("channel_id")),
        actor_id=_text(given.get("actor_id")) or _text(given.get("session_id")),
        actor_name=_text(given.get("actor_name")),
        payload=without_none(about),
        hops=hops,
        framed=True,
        sent_by=f"contract:{contract.id}",
    )


def _hops(event: Event) -> int:
    """One more than the message that the event answers or is about."""
    payload = event.payload if isinstance(event.payload, Mapping) else {}
    if event.source == "agent":
        answered = payload.get("answers")
        before = answered.get("hops") if isinstance(answered, Mapping) else 0
        return _whole(before) + 1
    if event.source == SOURCE and event.type != QUEUED:
        return _whole(payload.get("hops")) + 1
    return _whole(payload.get("hops")) + (event.type == QUEUED and event.to == event.stream)


def _place(event: Event, message: Message) -> Place:
    given = event.properties
    return Place(message.origin, message.source_channel_id, _text(given.get("repo")), _text(given.get("branch")))


def _contract_key(event: Event, message: Message, session: Session) -> str:
    """One message for each session, however many contracts or redeliveries bring it there."""
    return message_key(
        message.origin, message.source_channel_id or "", message.source_message_id or event.id, session.id
    )


def _text(value: Json) -> str | None:
    return clip_text(str(value), WORD_MAX) if isinstance(value, str | int) and not isinstance(value, bool) else None


def _whole(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0

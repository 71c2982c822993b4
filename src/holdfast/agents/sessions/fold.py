"""The row of a session as its events tell it: what each event changed, applied in the order of the stream.

Hooks, changes by an operator and what became of messages are applied as the session's consumer applied them. What the
consumer took from elsewhere at the time (a title or an answer from a transcript, the session that was continued) is
taken from the events that it made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from holdfast.agents.hooks.hook import SOURCE as HOOK_SOURCE
from holdfast.agents.hooks.hook import Hook
from holdfast.agents.messages.text import contains_message
from holdfast.agents.sessions.agent_hook import read_agent_hook
from holdfast.agents.sessions.lifecycle import advance
from holdfast.agents.sessions.message_facts import ANSWERING, about_message, facts_of_signal
from holdfast.agents.sessions.operator_events import SOURCE as OPERATOR_SOURCE
from holdfast.agents.sessions.operator_events import TYPES as OPERATOR_TYPES
from holdfast.agents.sessions.operator_events import UNBOUND, check_binding, operator_change
from holdfast.agents.sessions.prompted_message import RECENT
from holdfast.domain.errors import BadInput
from holdfast.domain.event import Event
from holdfast.domain.json_value import Json, KnownJson, text_in
from holdfast.domain.lane import SESSIONS
from holdfast.domain.message import SOURCE as MESSAGE_SOURCE
from holdfast.domain.message import Message, is_message, read_message
from holdfast.domain.session import Binding, Session, SessionChange, SessionTimes, apply_change

AGENT_SOURCE = "agent"
STARTED = "session.started"
AFTER_A_TURN = ("agent.agent_stop", "error.error", "session.closed")
"""Events of the hooks for which the consumer reads the transcript. Others repeat what the row said before."""


class SessionFold:
    """Feed it the events of one session's stream in order.

    `session`: the row so far, None before the first hook. `chats`: those that are bound to it, in the order they were.
    """

    def __init__(self) -> None:
        self.session: Session | None = None
        self.chats: dict[Binding, None] = {}
        self.applied = 0
        self._created_at_ms = self._updated_at_ms = 0
        self._messages: deque[tuple[str, Message]] = deque(maxlen=RECENT)

    @property
    def times(self) -> SessionTimes:
        return SessionTimes(self._created_at_ms, self._updated_at_ms)

    def add(self, event: Event, is_settled: bool) -> None:
        """Apply one event. `is_settled`: the session's lane has handled it, if it belongs there."""
        try:
            change = self._lane_change(event) if event.to == SESSIONS and is_settled else self._record(event)
        except BadInput:
            return  # the lane refused it for the same reason
        if change is None:
            return
        if self.session is None:
            self._created_at_ms = event.accepted_at_ms
        self.session = apply_change(self.session, change)
        self._updated_at_ms = max(self._updated_at_ms, event.accepted_at_ms)
        self.applied += 1
        for chat in change.unbind:
            self.chats.pop(chat, None)
        self.chats |= dict.fromkeys(change.bind)

    def _lane_change(self, event: Event) -> SessionChange | None:
        """What the consumer made of an event of its lane."""
        if event.source == HOOK_SOURCE:
            return self._hook(event)
        if self.session is None:
            return None
        if event.source == MESSAGE_SOURCE:
            return self._signal(self.session, event)
        if event.source == OPERATOR_SOURCE and event.type in OPERATOR_TYPES:
            return operator_change(self.session, event)
        return None

    def _hook(self, event: Event) -> SessionChange | None:
        hook, session = read_agent_hook(event), self.session
        if session is None and hook.event_type == "raw" and hook.injected:
            return None
        change, _ = advance(session, hook)
        if hook.event_type == "user_prompt_submit" and session is not None and not hook.late and not hook.injected:
            change = replace(change, facts={**change.facts, ANSWERING: self._answering(hook)})
        return change

    def _answering(self, hook: Hook) -> Json:
        if not hook.prompt:
            return None
        for id, message in reversed(self._messages):
            if contains_message(hook.prompt, message.content):
                return about_message(id, message)
        return None

    def _signal(self, session: Session, event: Event) -> SessionChange | None:
        id = text_in(_payload(event), "message_id")
        message = next((message for known, message in self._messages if known == id), None)
        if id is None or message is None or session.facts.get("last_message_id") == id:
            return None
        return _change(session, facts=facts_of_signal(event, id, message))

    def _record(self, event: Event) -> SessionChange | None:
        """What an event that the consumer made, or a message, adds to the row."""
        if is_message(event):
            self._messages.append((event.id, read_message(event.payload)))
            return None
        session, payload = self.session, _payload(event)
        if session is None or event.source not in (AGENT_SOURCE, OPERATOR_SOURCE) or event.to is not None:
            return None
        if event.type == UNBOUND:
            return _change(session, unbind=(check_binding(payload.get("origin"), payload.get("channel")),))
        if event.type == STARTED and (continues := text_in(payload, "continues")) is not None:
            name, facts = text_in(payload, "name"), {"continues": continues}
            return _change(session, name=name, bind=_chats(payload.get("chats")), facts=facts)
        title, answer = text_in(payload, "title"), text_in(payload, "last_answer")
        if event.type not in AFTER_A_TURN or (title is None and answer is None):
            return None
        return _change(session, title=title, last_answer=answer)


def _change(session: Session, **changed: KnownJson) -> SessionChange:
    return replace(SessionChange(session.id, session.agent, session.native_id), **changed)


def _payload(event: Event) -> Mapping[str, Json]:
    return event.payload if isinstance(event.payload, dict) else {}


def _chats(value: Json) -> tuple[Binding, ...]:
    given = value if isinstance(value, list) else []
    return tuple(check_binding(one.get("origin"), one.get("channel")) for one in given if isinstance(one, Mapping))

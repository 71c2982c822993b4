"""The domain events that follow from a hook: session started, updated or closed, and what the agent did."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.agents.hooks.hook import Hook
from holdfast.agents.sessions.message_facts import answered_message, message_properties
from holdfast.domain.agent_events import agent_activity, agent_event, error_event, session_event
from holdfast.domain.event import NewEvent
from holdfast.domain.json_value import Json, JsonObject, without_none
from holdfast.domain.session import FINISHED_STATES, Binding, Session
from holdfast.domain.text import clip_text

PROMPT_MAX = 4000
ANSWER_MAX = 8000
MESSAGE_MAX = 2000
TITLE_MAX = 200
WORD_MAX = 200

_ANSWERS = ("agent_stop", "notification")
_AGENT_EVENTS = ("user_prompt_submit", "agent_stop", "notification", "subagent_start", "subagent_stop")


class Predecessor(NamedTuple):
    """The session that a new one continues, and the chats that are bound to it. The new one takes over both."""

    session: Session
    chats: tuple[Binding, ...] = ()

    def as_payload(self) -> JsonObject:
        """What `session.started` says about it."""
        chats: list[Json] = [dict(chat._asdict()) for chat in self.chats]
        return {"continues": self.session.id, "name": self.session.name or None, "chats": chats or None}


def events_of_hook(
    session: Session | None, after: Session, hook: Hook, predecessor: Predecessor | None
) -> list[NewEvent]:
    """The events of one hook. `session` is the row before it (None: new), `after` the row after it."""
    lifecycle = _lifecycle_events(session, after, hook, predecessor)
    events = [*lifecycle, *_agent_events(after, hook)]
    if session is not None and not lifecycle and _published(after) != _published(session):
        events.append(_session_event("updated", after, hook))
    return [event._replace(timestamp=hook.at) for event in events]


def _published(session: Session) -> tuple[object, ...]:
    """The columns whose change makes a `session.updated` event. Prompts and answers have their own events."""
    return (session.state, session.title, session.cwd, session.pane or None)


def _lifecycle_events(
    session: Session | None, after: Session, hook: Hook, predecessor: Predecessor | None
) -> list[NewEvent]:
    """The events `started` and `closed`."""
    was_finished = session is not None and session.state in FINISHED_STATES
    events = []
    if session is None or (was_finished and after.state not in FINISHED_STATES):
        more: JsonObject = {} if predecessor is None else predecessor.as_payload()
        events.append(_session_event("started", after, hook, resumed=session is not None or None, **more))
    if after.state in FINISHED_STATES and (
        not was_finished or (session is not None and session.state is not after.state)
    ):
        events.append(_session_event("closed", after, hook))
    return events


def _session_event(happened: str, after: Session, hook: Hook, **more: Json) -> NewEvent:
    payload = {
        **_about(after), "native_id": after.native_id, "state": after.state, "pane": after.pane or None,
        "source": clip_text(hook.source, WORD_MAX), "reason": clip_text(hook.reason, WORD_MAX), **more,
    }  # fmt: skip
    return session_event(happened, after.id, without_none(payload), agent=after.agent, title=after.title)


def _agent_events(after: Session, hook: Hook) -> list[NewEvent]:
    """The event about the agent's activity. It does not contain the output of tools."""
    if hook.event_type in ("tool_use", "tool_done"):
        details = {"tool_name": clip_text(hook.tool_name, WORD_MAX), "ok": hook.ok, "at": hook.at, **_subagent(hook)}
        payload = without_none({"agent": after.agent, **details})
        tool = clip_text(hook.tool_name, WORD_MAX)
        return [agent_activity(hook.event_type, after.id, payload, tool_name=tool, agent=after.agent)]
    if hook.event_type == "error":
        code = clip_text(hook.error, WORD_MAX) or "UNKNOWN"
        message = clip_text(hook.message, MESSAGE_MAX) or code
        payload = {**_about(after), "message": message, "error": code}
        return [error_event(payload, session_id=after.id, error_source=after.agent, error_code=code)]
    if hook.event_type not in _AGENT_EVENTS:
        return []
    answered = answered_message(after.facts) if hook.event_type in _ANSWERS else None
    details = {**_details(after, hook), **({} if answered is None else {"answers": answered})}
    payload = without_none({**_about(after), **details, **_subagent(hook)})
    properties = {
        "agent": after.agent, "title": after.title, "injected": hook.injected or None, **message_properties(answered),
    }  # fmt: skip
    return [agent_event(hook.event_type, after.id, payload, **properties)]


def _details(after: Session, hook: Hook) -> JsonObject:
    match hook.event_type:
        case "user_prompt_submit":
            return {"prompt": clip_text(hook.prompt, PROMPT_MAX), "injected": hook.injected or None}
        case "agent_stop":
            return {"last_answer": after.last_answer, "state": after.state, "background": hook.background or None}
        case "notification":
            return {
                "message": clip_text(hook.message, MESSAGE_MAX),
                "reason": clip_text(hook.reason, WORD_MAX),
                "tool_name": clip_text(hook.tool_name, WORD_MAX),
            }
        case "subagent_stop":
            return {"answer": clip_text(hook.answer, ANSWER_MAX)}
    return {}


def _subagent(hook: Hook) -> JsonObject:
    return {"subagent_id": hook.subagent_id, "subagent_type": hook.subagent_type}


def _about(after: Session) -> JsonObject:
    return {"agent": after.agent, "title": after.title, "cwd": after.cwd}

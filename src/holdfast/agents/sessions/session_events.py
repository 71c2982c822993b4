"""What the world outside is told of a session, hook by hook."""

from __future__ import annotations

from typing import Any

from holdfast.agents.hooks.hook import Hook
from holdfast.domain.agent_events import agent_activity, agent_event, error_event, session_event
from holdfast.domain.event import NewEvent
from holdfast.domain.json_value import without_none
from holdfast.domain.session import FINISHED_STATES, Session
from holdfast.domain.text import clip_text

PROMPT_MAX = 4000
ANSWER_MAX = 8000
MESSAGE_MAX = 2000
TITLE_MAX = 200
WORD_MAX = 200

_TOLD = ("user_prompt_submit", "agent_stop", "notification", "subagent_start", "subagent_stop")


def tell(session: Session | None, after: Session, hook: Hook, before: Session | None) -> list[NewEvent]:
    """The events of one hook: that a session began or is over, what its agent did, that it looks different now."""
    news = _news(session, after, hook, before)
    events = [*news, *_tell(after, hook)]
    if session is not None and not news and _outside(after) != _outside(session):
        events.append(_session_event("updated", after, hook))
    return [event._replace(timestamp=hook.at) for event in events]


def _outside(session: Session) -> tuple[Any, ...]:
    """What somebody else cares about. Prompts and answers are told by events of their own."""
    return (session.state, session.title, session.cwd, session.pane or None)


def _news(session: Session | None, after: Session, hook: Hook, before: Session | None) -> list[NewEvent]:
    """That a session began or is over."""
    was_over = session is not None and session.state in FINISHED_STATES
    events = []
    if session is None or (was_over and after.state not in FINISHED_STATES):
        more = {"continues": None if before is None else before.id, "resumed": session is not None or None}
        events.append(_session_event("started", after, hook, **more))
    if after.state in FINISHED_STATES and (not was_over or (session is not None and session.state is not after.state)):
        events.append(_session_event("closed", after, hook))
    return events


def _session_event(happened: str, after: Session, hook: Hook, **more: Any) -> NewEvent:
    payload = {
        **_about(after), "native_id": after.native_id, "state": after.state, "pane": after.pane or None,
        "source": clip_text(hook.source, WORD_MAX), "reason": clip_text(hook.reason, WORD_MAX), **more,
    }  # fmt: skip
    return session_event(happened, after.id, without_none(payload), agent=after.agent, title=after.title)


def _tell(after: Session, hook: Hook) -> list[NewEvent]:
    """The agent's own event, for those who listen to agents. A tool's output is no part of it."""
    if hook.event_type in ("tool_use", "tool_done"):
        facts = {"tool_name": clip_text(hook.tool_name, WORD_MAX), "ok": hook.ok, "at": hook.at, **_subagent(hook)}
        payload = without_none({"agent": after.agent, **facts})
        tool = clip_text(hook.tool_name, WORD_MAX)
        return [agent_activity(hook.event_type, after.id, payload, tool_name=tool, agent=after.agent)]
    if hook.event_type == "error":
        code = clip_text(hook.error, WORD_MAX) or "UNKNOWN"
        said = clip_text(hook.message, MESSAGE_MAX) or code
        payload = {**_about(after), "message": said, "error": code}
        return [error_event(payload, session_id=after.id, error_source=after.agent, error_code=code)]
    if hook.event_type not in _TOLD:
        return []
    payload = without_none({**_about(after), **_said(after, hook), **_subagent(hook)})
    marks = {"agent": after.agent, "title": after.title, "injected": hook.injected or None}
    return [agent_event(hook.event_type, after.id, payload, **marks)]


def _said(after: Session, hook: Hook) -> dict[str, Any]:
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


def _subagent(hook: Hook) -> dict[str, Any]:
    return {"subagent_id": hook.subagent_id, "subagent_type": hook.subagent_type}


def _about(after: Session) -> dict[str, Any]:
    return {"agent": after.agent, "title": after.title, "cwd": after.cwd}

"""The life of a session: how each hook event changes its row, and which events follow.

| event | state after it | also recorded |
|---|---|---|
| `session_start` | initializing; unchanged if the source is `compact` | identity, pane, the session it continues |
| `user_prompt_submit` | working | last prompt, unless the CLI submitted it |
| `tool_use`, `tool_done` | working; `tool_done` after the turn changes nothing | the current tool and its times |
| `agent_stop` | idle; waiting while tasks run in the background | last answer, title |
| `notification` | waiting; idle if the reason is `idle_prompt` | message and reason |
| `error` | failed | error and message |
| `subagent_start`, `subagent_stop`, `compact`, `raw` | unchanged | running subagents |
| `session_end` | ended; closed if an operator closed it | time and reason |

A finished session resumes with `session_start` or a prompt; other late events do not resume it. Tool events may be
coalesced before they arrive here, so they are not counted: each one holds everything about its tool.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from holdfast.agents.hooks.hook import CLOSED, CONTINUED, Hook, session_end_event
from holdfast.agents.sessions.session_events import (
    ANSWER_MAX,
    MESSAGE_MAX,
    PROMPT_MAX,
    TITLE_MAX,
    WORD_MAX,
    Predecessor,
    events_of_hook,
)
from holdfast.agents.transcripts.latest_texts import LatestTexts
from holdfast.domain.event import NewEvent
from holdfast.domain.json_value import JsonObject, KnownJson, object_in
from holdfast.domain.session import FINISHED_STATES, Session, SessionChange, SessionState, apply_change
from holdfast.domain.text import clip_text

TITLE_FROM_PROMPT_MAX = 80
SUBAGENTS_MAX = 32

CONTINUATION_SOURCES = frozenset({"resume", "clear", "compact"})
"""Sources of `session_start`, and end reasons, with which one session continues another."""

_INFORMATIONAL = frozenset({"auth_success", "elicitation_complete", "elicitation_response", "agent_completed"})
_COLUMNS = ("cwd", "pane", "transcript", "title", "last_prompt", "last_answer")
_RESUMING = ("session_start", "user_prompt_submit")


def advance(
    session: Session | None, hook: Hook, *, latest: LatestTexts | None = None, predecessor: Predecessor | None = None
) -> tuple[SessionChange, list[NewEvent]]:
    """The change that one hook event makes to its session, and the events that follow from it.

    `latest` holds the texts of the transcript, `predecessor` is the session that a new one continues.
    """
    state = _state(session, hook)
    change = SessionChange(
        hook.session_id,
        hook.agent,
        hook.native_id,
        state=state,
        cwd=hook.cwd if hook.subagent is None else None,
        pane=_pane(session, hook),
        transcript=hook.transcript,
        host=clip_text(hook.host, WORD_MAX),
        **_texts(session, hook, latest or LatestTexts()),
        facts=_facts(session, hook, state),
    )
    if predecessor is not None:
        before = predecessor.session
        facts = {**change.facts, "continues": before.id}
        change = replace(change, name=before.name or None, bind=predecessor.chats, facts=facts)
    if session is not None and hook.late:
        change = _only_missing(session, change)
    after = apply_change(session, change)
    events = events_of_hook(session, after, hook, predecessor)
    if predecessor is not None and predecessor.session.state not in FINISHED_STATES:
        events.append(session_end_event(predecessor.session, CONTINUED, hook.at, by=hook.session_id))
    return change, events


def find_predecessor(hook: Hook, candidates: Iterable[Session]) -> Session | None:
    """The session that a new one continues: in the same pane, or with the same transcript and folder."""
    if hook.event_type != "session_start" or hook.source not in CONTINUATION_SOURCES:
        return None
    for session in candidates:
        same_pane = hook.pane is not None and not hook.pane_is_shared and session.pane == hook.pane
        same_file = hook.transcript is not None and (session.transcript, session.cwd) == (hook.transcript, hook.cwd)
        continues = session.state not in FINISHED_STATES or session.facts.get("end_reason") in CONTINUATION_SOURCES
        if session.id != hook.session_id and session.agent == hook.agent and continues and (same_pane or same_file):
            return session
    return None


def _state(session: Session | None, hook: Hook) -> SessionState | None:
    """The state after the event; None: unchanged."""
    if session is None:
        return _state_by_type(None, hook) or SessionState.INITIALIZING
    if hook.late:
        return None
    if session.state in FINISHED_STATES:
        if hook.event_type == "session_end":
            return SessionState.CLOSED if hook.reason == CLOSED else None
        # A session that seemed to be continued by another one, but still uses tools, is not over.
        still_works = session.facts.get("end_reason") == CONTINUED and hook.event_type == "tool_use"
        if hook.event_type not in _RESUMING and not still_works:
            return None
    return _state_by_type(session, hook)


def _state_by_type(session: Session | None, hook: Hook) -> SessionState | None:
    match hook.event_type:
        case "session_start":
            unchanged = session is not None and hook.source == "compact" and session.state not in FINISHED_STATES
            return None if unchanged else SessionState.INITIALIZING
        case "user_prompt_submit":
            return SessionState.WORKING
        case "tool_use" | "tool_done":
            return _state_by_tool(session, hook)
        case "agent_stop":
            return SessionState.WAITING if hook.background else SessionState.IDLE
        case "notification":
            if hook.reason == "idle_prompt":
                return SessionState.IDLE
            return None if hook.reason in _INFORMATIONAL else SessionState.WAITING
        case "error":
            return SessionState.FAILED
        case "session_end":
            return SessionState.CLOSED if hook.reason == CLOSED else SessionState.ENDED
        case "subagent_start" | "subagent_stop" if session is None:
            return SessionState.WORKING
    return None


def _state_by_tool(session: Session | None, hook: Hook) -> SessionState | None:
    """`tool_use` of the agent itself means working. Other tool events only show that no question is open any more."""
    if session is None:
        return SessionState.WORKING
    has_question = session.state is SessionState.WAITING and session.facts.get("waiting_for") != "background"
    if has_question or (hook.event_type == "tool_use" and hook.subagent is None):
        return SessionState.WORKING
    return SessionState.WORKING if session.state is SessionState.INITIALIZING else None


def _pane(session: Session | None, hook: Hook) -> str | None:
    """The tmux pane, if the hook reports it reliably. Empty: the session was started again outside of tmux."""
    if hook.pane_is_shared:
        return None
    if hook.pane is None and hook.event_type == "session_start" and session is not None and session.pane:
        return ""
    return hook.pane


def _texts(session: Session | None, hook: Hook, latest: LatestTexts) -> dict[str, KnownJson]:
    own = hook.subagent is None
    prompt = hook.prompt if own and not hook.injected and hook.event_type != "raw" else None
    answer = hook.answer if own and hook.event_type != "error" else None
    if prompt is None and (session is None or session.last_prompt is None):
        prompt = latest.prompt
    title = hook.title or latest.title
    any_prompt = prompt or (session and session.last_prompt)
    if title is None and any_prompt and (session is None or session.title is None):
        title = clip_text(any_prompt.strip().partition("\n")[0], TITLE_FROM_PROMPT_MAX)
    return {
        "last_prompt": clip_text(prompt, PROMPT_MAX),
        "last_answer": clip_text(answer or latest.answer, ANSWER_MAX),
        "title": clip_text(title, TITLE_MAX) or None,
    }


def _facts(session: Session | None, hook: Hook, state: SessionState | None) -> JsonObject:
    """Facts without a column of their own. None removes a fact."""
    facts: JsonObject = {}
    if hook.reason not in (CLOSED, CONTINUED):
        facts["seen_at"] = hook.at
    if hook.model is not None:
        facts["model"] = clip_text(hook.model, WORD_MAX)
    if hook.pane is not None and hook.pane_is_shared:
        facts["pane_hint"] = clip_text(hook.pane, WORD_MAX)
    if hook.tmux is not None:
        facts["tmux_hint" if hook.pane_is_shared else "tmux"] = clip_text(hook.tmux, MESSAGE_MAX)
        if not hook.pane_is_shared:
            facts["tmux_server"] = hook.tmux_server
    if state is not None:
        facts |= _state_facts(state, hook)
    return facts | _type_facts(session, hook)


def _state_facts(state: SessionState, hook: Hook) -> JsonObject:
    """The facts that explain the new state; those of the previous state are removed."""
    waiting = "background" if hook.event_type == "agent_stop" else clip_text(hook.reason, WORD_MAX) or "notification"
    finished = state in FINISHED_STATES
    return {
        "waiting_for": waiting if state is SessionState.WAITING else None,
        "message": clip_text(hook.message, MESSAGE_MAX) if hook.event_type in ("notification", "error") else None,
        "error": clip_text(hook.error, WORD_MAX) if state is SessionState.FAILED else None,
        "ended_at": hook.at if finished else None,
        "end_reason": (clip_text(hook.reason, WORD_MAX) or "other") if finished else None,
    }


def _type_facts(session: Session | None, hook: Hook) -> JsonObject:
    facts = {} if session is None else session.facts
    tool = clip_text(hook.tool_name, WORD_MAX)
    match hook.event_type:
        case "session_start" if hook.source != "compact":  # tools and subagents ended with the previous process
            return dict.fromkeys(("subagents", "tool", "tool_started_at", "tool_ended_at", "tool_ok"))
        case "user_prompt_submit":
            return {"turns": _count(facts.get("turns")) + 1, "turn_started_at": hook.at, "turn_ended_at": None}
        case "agent_stop" | "error" if hook.subagent is None:
            return {"turn_ended_at": hook.at, **({} if hook.background else {"subagents": None})}
        case "tool_use":
            return {"tool": tool, "tool_started_at": hook.at, "tool_ended_at": None, "tool_ok": None}
        case "tool_done":
            return {"tool": tool, "tool_ended_at": hook.at, "tool_ok": hook.ok}
        case "subagent_start" if hook.subagent and len(object_in(facts, "subagents")) < SUBAGENTS_MAX:
            return {"subagents": {hook.subagent: hook.subagent_type or hook.subagent}}
        case "subagent_stop" if hook.subagent:
            return {"subagents": {hook.subagent: None}}
        case "compact":
            return {"compacted_at": hook.at}
        case "session_end":
            return {"subagents": None}
    return {}


def _only_missing(session: Session, change: SessionChange) -> SessionChange:
    """The part of a late event's change that fills columns which are still empty."""
    filled: dict[str, KnownJson] = {name: None for name in _COLUMNS if getattr(session, name) is not None}
    return replace(change, **filled, facts={})


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0

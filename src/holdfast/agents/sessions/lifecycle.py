"""The life of a session: what each hook event changes of it, and what the world outside is told.

| event | state after it | beside it |
|---|---|---|
| `session_start` | initializing; by `compact` as it was | identity, pane, what it continues |
| `user_prompt_submit` | working | last prompt, unless the system put it in |
| `tool_use`, `tool_done` | working; a late `tool_done` wakes nobody | the tool at work and since when |
| `agent_stop` | idle; waiting while tasks run in the background | last answer, title |
| `notification` | waiting; idle where it only says so | what it asks for |
| `error` | failed | what failed |
| `subagent_start`, `subagent_stop`, `compact`, `raw` | as it was | which subagents run |
| `session_end` | ended; closed if an operator did it | when and why |

An ended or closed session comes back with `session_start` or a prompt, not with a straggler. Tool events may be
thinned out before they come here, so nothing is counted by them: each says all there is to say of its tool.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from holdfast.agents.hooks.hook import CLOSED, CONTINUED, Hook, session_end_event
from holdfast.agents.sessions.session_events import (
    ANSWER_MAX,
    MESSAGE_MAX,
    PROMPT_MAX,
    TITLE_MAX,
    WORD_MAX,
    tell,
)
from holdfast.domain.event import NewEvent
from holdfast.domain.session import FINISHED_STATES, Session, SessionChange, SessionState
from holdfast.domain.text import clip_text

TITLE_FROM_PROMPT_MAX = 80
SUBAGENTS_MAX = 32

PANE_UNSURE = frozenset({"codex"})
"""CLIs whose hooks run in a process that several terminals share: the pane they see is often another one's."""

CONTINUING = frozenset({"resume", "clear", "compact"})
_NOT_WAITING = frozenset({"auth_success", "elicitation_complete", "elicitation_response", "agent_completed"})
_COLUMNS = ("cwd", "pane", "transcript", "title", "last_prompt", "last_answer")
_REVIVE = ("session_start", "user_prompt_submit")


class Words(Protocol):
    """What a transcript says of its session."""

    @property
    def title(self) -> str | None: ...
    @property
    def prompt(self) -> str | None: ...
    @property
    def answer(self) -> str | None: ...


class Last(NamedTuple):
    title: str | None = None
    prompt: str | None = None
    answer: str | None = None


_NOTHING = Last()


def advance(
    session: Session | None, hook: Hook, *, last: Words | None = None, before: Session | None = None
) -> tuple[SessionChange, list[NewEvent]]:
    """What one hook event changes, and the events that tell of it.

    `last` is what the transcript says, `before` the session that this one continues.
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
        **_texts(session, hook, last or _NOTHING),
        facts={**_facts(session, hook, state), **({} if before is None else {"continues": before.id})},
    )
    if session is not None and hook.late:
        change = _fill_in(session, change)
    after = _after(session, change)
    events = tell(session, after, hook, before)
    if before is not None and before.state not in FINISHED_STATES:
        events.append(session_end_event(before, CONTINUED, hook.at, by=hook.session_id))
    return change, events


def continued(hook: Hook, candidates: Iterable[Session]) -> Session | None:
    """The session that a new one goes on from: in the same pane, or with the same transcript in the same folder."""
    if hook.event_type != "session_start" or hook.source not in CONTINUING:
        return None
    for one in candidates:
        same_pane = hook.pane is not None and hook.agent not in PANE_UNSURE and one.pane == hook.pane
        linked = hook.transcript is not None and (one.transcript, one.cwd) == (hook.transcript, hook.cwd)
        goes_on = one.state not in FINISHED_STATES or one.facts.get("end_reason") in CONTINUING
        if one.id != hook.session_id and one.agent == hook.agent and goes_on and (same_pane or linked):
            return one
    return None


def _state(session: Session | None, hook: Hook) -> SessionState | None:
    """The state after it; None: as it was."""
    if session is None:
        return _wanted(None, hook) or SessionState.INITIALIZING
    if hook.late:
        return None
    if session.state in FINISHED_STATES:
        if hook.event_type == "session_end":
            return SessionState.CLOSED if hook.reason == CLOSED else None
        guessed = session.facts.get("end_reason") == CONTINUED and hook.event_type == "tool_use"
        if hook.event_type not in _REVIVE and not guessed:
            return None
    return _wanted(session, hook)


def _wanted(session: Session | None, hook: Hook) -> SessionState | None:
    match hook.event_type:
        case "session_start":
            stays = session is not None and hook.source == "compact" and session.state not in FINISHED_STATES
            return None if stays else SessionState.INITIALIZING
        case "user_prompt_submit":
            return SessionState.WORKING
        case "tool_use" | "tool_done":
            return _at_work(session, hook)
        case "agent_stop":
            return SessionState.WAITING if hook.background else SessionState.IDLE
        case "notification":
            if hook.reason == "idle_prompt":
                return SessionState.IDLE
            return None if hook.reason in _NOT_WAITING else SessionState.WAITING
        case "error":
            return SessionState.FAILED
        case "session_end":
            return SessionState.CLOSED if hook.reason == CLOSED else SessionState.ENDED
        case "subagent_start" | "subagent_stop" if session is None:
            return SessionState.WORKING
    return None


def _at_work(session: Session | None, hook: Hook) -> SessionState | None:
    """A tool at work says that the agent works; one that is done, or a subagent's, only that nobody is asked."""
    if session is None:
        return SessionState.WORKING
    asked = session.state is SessionState.WAITING and session.facts.get("waiting_for") != "background"
    if asked or (hook.event_type == "tool_use" and hook.subagent is None):
        return SessionState.WORKING
    return SessionState.WORKING if session.state is SessionState.INITIALIZING else None


def _pane(session: Session | None, hook: Hook) -> str | None:
    """The pane, where it can be trusted. Empty: it has none any more, since it began again outside of tmux."""
    if hook.agent in PANE_UNSURE:
        return None
    if hook.pane is None and hook.event_type == "session_start" and session is not None and session.pane:
        return ""
    return hook.pane


def _texts(session: Session | None, hook: Hook, last: Words) -> dict[str, str | None]:
    own = hook.subagent is None
    prompt = hook.prompt if own and not hook.injected and hook.event_type != "raw" else None
    answer = hook.answer if own and hook.event_type != "error" else None
    if prompt is None and (session is None or session.last_prompt is None):
        prompt = last.prompt
    title = hook.title or last.title
    known = prompt or (session and session.last_prompt)
    if title is None and known and (session is None or session.title is None):
        title = clip_text(known.strip().partition("\n")[0], TITLE_FROM_PROMPT_MAX)
    return {
        "last_prompt": clip_text(prompt, PROMPT_MAX),
        "last_answer": clip_text(answer or last.answer, ANSWER_MAX),
        "title": clip_text(title, TITLE_MAX) or None,
    }


def _facts(session: Session | None, hook: Hook, state: SessionState | None) -> dict[str, Any]:
    """What has no column of its own. None takes a fact away."""
    facts: dict[str, Any] = {}
    unsure = hook.agent in PANE_UNSURE
    if hook.reason not in (CLOSED, CONTINUED):
        facts["seen_at"] = hook.at
    if hook.model is not None:
        facts["model"] = clip_text(hook.model, WORD_MAX)
    if hook.pane is not None and unsure:
        facts["pane_hint"] = clip_text(hook.pane, WORD_MAX)
    if hook.tmux is not None:
        facts["tmux_hint" if unsure else "tmux"] = clip_text(hook.tmux, MESSAGE_MAX)
    if state is not None:
        facts |= _reasons(state, hook)
    return facts | _by_type(session, hook)


def _reasons(state: SessionState, hook: Hook) -> dict[str, Any]:
    """Why it is in the state it comes into; what explained the one before goes."""
    waiting = "background" if hook.event_type == "agent_stop" else clip_text(hook.reason, WORD_MAX) or "notification"
    over = state in FINISHED_STATES
    return {
        "waiting_for": waiting if state is SessionState.WAITING else None,
        "message": clip_text(hook.message, MESSAGE_MAX) if hook.event_type in ("notification", "error") else None,
        "error": clip_text(hook.error, WORD_MAX) if state is SessionState.FAILED else None,
        "ended_at": hook.at if over else None,
        "end_reason": (clip_text(hook.reason, WORD_MAX) or "other") if over else None,
    }


def _by_type(session: Session | None, hook: Hook) -> dict[str, Any]:
    known = {} if session is None else session.facts
    tool = clip_text(hook.tool_name, WORD_MAX)
    match hook.event_type:
        case "session_start" if hook.source != "compact":  # whatever was under way ended with the process before
            return dict.fromkeys(("subagents", "tool", "tool_started_at", "tool_ended_at", "tool_ok"))
        case "user_prompt_submit":
            return {"turns": _count(known.get("turns")) + 1, "turn_started_at": hook.at, "turn_ended_at": None}
        case "agent_stop" | "error" if hook.subagent is None:
            return {"turn_ended_at": hook.at, **({} if hook.background else {"subagents": None})}
        case "tool_use":
            return {"tool": tool, "tool_started_at": hook.at, "tool_ended_at": None, "tool_ok": None}
        case "tool_done":
            return {"tool": tool, "tool_ended_at": hook.at, "tool_ok": hook.ok}
        case "subagent_start" if hook.subagent and len(known.get("subagents") or ()) < SUBAGENTS_MAX:
            return {"subagents": {hook.subagent: hook.subagent_type or hook.subagent}}
        case "subagent_stop" if hook.subagent:
            return {"subagents": {hook.subagent: None}}
        case "compact":
            return {"compacted_at": hook.at}
        case "session_end":
            return {"subagents": None}
    return {}


def _fill_in(session: Session, change: SessionChange) -> SessionChange:
    """Of what came late, only what nothing later has said."""
    said: dict[str, Any] = {name: None for name in _COLUMNS if getattr(session, name) is not None}
    return replace(change, **said, facts={})


def _after(session: Session | None, change: SessionChange) -> Session:
    """The session as the change leaves it, for those who are told of it."""
    before = session or Session(change.id, change.agent, change.native_id)
    names = ("state", *_COLUMNS)
    changed = {name: value for name in names if (value := getattr(change, name)) is not None}
    return replace(before, **changed)


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0

"""Hook: what an agent's command line told about itself, in our words, whatever the CLI calls it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.domain.errors import BadInput
from holdfast.domain.event import Event, NewEvent, iso_time, new_event, parse_time
from holdfast.domain.lane import SESSIONS
from holdfast.domain.session import STREAM_PREFIX, Session
from holdfast.domain.text import short_repr

SOURCE = "hook"
EVENT_TYPES = (
    "session_start", "user_prompt_submit", "tool_use", "tool_done", "agent_stop", "notification", "error",
    "subagent_start", "subagent_stop", "compact", "session_end", "raw",
)  # fmt: skip
"""Everything a native event can become. `raw` is one without a counterpart: kept, and not acted upon."""

UNKNOWN = "unknown"
SESSION_ID_MAX = 200
CLOSED = "closed"
CONTINUED = "continued"

_OUTSIDE = re.compile(r"[^A-Za-z0-9_.:@-]")
_TEXTS = (
    "cwd", "pane", "tmux", "transcript", "prompt", "answer", "message", "tool_name", "error", "source", "reason",
    "title", "model",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook event as the consumer sees it. `late`: it was found after a later one had been imported."""

    agent: str
    native_event: str
    event_type: str
    session_id: str
    native_id: str
    at_ms: int
    cwd: str | None = None
    pane: str | None = None
    tmux: str | None = None
    transcript: str | None = None
    prompt: str | None = None
    answer: str | None = None
    message: str | None = None
    tool_name: str | None = None
    error: str | None = None
    source: str | None = None
    reason: str | None = None
    title: str | None = None
    model: str | None = None
    ok: bool | None = None
    background: bool = False
    injected: bool = False
    subagent_id: str | None = None
    subagent_type: str | None = None
    late: bool = False

    @property
    def at(self) -> str:
        return iso_time(self.at_ms)

    @property
    def subagent(self) -> str | None:
        """By which name a subagent is known: its id, or what kind it is where the CLI gives no id."""
        return self.subagent_id or self.subagent_type


def session_id_of(agent: str, native_id: str) -> str:
    """The session's id, from the event alone: no table that could lack an entry.

    >>> session_id_of("claude", "3f1c9a52-7d0e"), session_id_of("codex", "a b/c")
    ('claude-3f1c9a52-7d0e', 'codex-a_b_c')
    """
    whole = f"{agent}-{native_id}"
    id = _OUTSIDE.sub("_", whole)
    if len(id) <= SESSION_ID_MAX:
        return id
    mark = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{id[: SESSION_ID_MAX - 17]}-{mark}"


def read_hook(event: Event) -> Hook:
    """The hook that a stored raw event tells of, or BadInput that says what makes it unreadable."""
    payload, properties = event.payload, event.properties
    if not isinstance(payload, Mapping):
        raise BadInput(f"the hook event's payload must be an object, not {short_repr(payload)}")
    named = {name: _text(payload, name) for name in _TEXTS}
    agent, native_id = _must(payload, "agent"), _must(payload, "native_id")
    event_type = _must(payload, "event_type")
    if event_type not in EVENT_TYPES:
        raise BadInput(f"event_type {short_repr(event_type)} is unknown; known are {', '.join(EVENT_TYPES)}")
    session_id = session_id_of(agent, native_id)
    if event.stream != STREAM_PREFIX + session_id:
        raise BadInput(
            f"the hook event of session {short_repr(session_id)} stands on another stream, {short_repr(event.stream)}"
        )
    ok = payload.get("ok")
    return Hook(
        agent,
        _must(payload, "native_event"),
        event_type,
        session_id,
        native_id,
        parse_time(event.timestamp, "timestamp"),
        **named,
        ok=ok if isinstance(ok, bool) else None,
        background=payload.get("background") is True,
        injected=properties.get("injected") is True,
        subagent_id=_text(properties, "subagent_id"),
        subagent_type=_text(properties, "subagent_type"),
        late=properties.get("spool_late") is True,
    )


def session_end_event(session: Session, reason: str, at: str, *, by: str | None = None) -> NewEvent:
    """The end of a session that no hook told of: it takes its turn behind what its hooks told before.

    `closed`: an operator closed it. `continued`: the session `by` goes on in its place.
    """
    payload = {
        "agent": session.agent, "native_event": f"holdfast:{reason}", "event_type": "session_end",
        "native_id": session.native_id, "reason": reason, "by": by,
    }  # fmt: skip
    properties = {name: payload[name] for name in ("agent", "native_event", "event_type", "native_id")}
    return new_event(
        "hook.session_end",
        payload,
        source=SOURCE,
        stream=session.stream,
        timestamp=at,
        properties={**properties, "session_id": session.id},
        to=SESSIONS,
    )


def _text(holder: Mapping[str, Any], name: str) -> str | None:
    value = holder.get(name)
    return value if isinstance(value, str) and value else None


def _must(payload: Mapping[str, Any], name: str) -> str:
    value = _text(payload, name)
    if value is None:
        raise BadInput(f"the hook event has no {name}; it must be text, not {short_repr(payload.get(name))}")
    return value

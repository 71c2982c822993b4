"""Hook: one hook event of an agent CLI, with the same types and fields for every CLI."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

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
"""Our event types. `raw` is a native event without a counterpart: stored, but it changes no session."""

UNKNOWN = "unknown"
SESSION_ID_MAX = 200
CLOSED = "closed"
CONTINUED = "continued"
"""Reasons of a session end that no hook reported."""

_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_.:@-]")
_TEXTS = (
    "cwd", "pane", "tmux", "transcript", "prompt", "answer", "message", "tool_name", "error", "source", "reason",
    "title", "model", "host",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook event.

    `injected`: the CLI submitted the prompt, not a user. `background`: tasks still run after the turn ended. `late`:
    the event was imported after a later one. `pane_is_shared`: see `AgentCli`.
    """

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
    host: str | None = None
    tmux_server: int | None = None
    ok: bool | None = None
    background: bool = False
    injected: bool = False
    subagent_id: str | None = None
    subagent_type: str | None = None
    late: bool = False
    pane_is_shared: bool = False

    @property
    def at(self) -> str:
        return iso_time(self.at_ms)

    @property
    def subagent(self) -> str | None:
        """The subagent's id, or its type if the CLI gives no id."""
        return self.subagent_id or self.subagent_type


def session_id_of(agent: str, native_id: str) -> str:
    """The session's id, computed from the event alone, so no lookup can fail.

    >>> session_id_of("agent", "3f1c9a52-7d0e"), session_id_of("agent", "a b/c")
    ('agent-3f1c9a52-7d0e', 'agent-a_b_c')
    """
    whole = f"{agent}-{native_id}"
    id = _NOT_IN_ID.sub("_", whole)
    if len(id) <= SESSION_ID_MAX:
        return id
    digest = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{id[: SESSION_ID_MAX - 17]}-{digest}"


def read_hook(event: Event) -> Hook:
    """The hook in a stored event; BadInput names the field that is missing or wrong."""
    payload, properties = event.payload, event.properties
    if not isinstance(payload, Mapping):
        raise BadInput(f"the hook event's payload must be an object, not {short_repr(payload)}")
    texts = {name: _text(payload, name) for name in _TEXTS}
    agent, native_id = _required(payload, "agent"), _required(payload, "native_id")
    event_type = _required(payload, "event_type")
    if event_type not in EVENT_TYPES:
        raise BadInput(f"event_type {short_repr(event_type)} is unknown; known are {', '.join(EVENT_TYPES)}")
    session_id = session_id_of(agent, native_id)
    if event.stream != STREAM_PREFIX + session_id:
        raise BadInput(
            f"the hook event of session {short_repr(session_id)} is on another stream, {short_repr(event.stream)}"
        )
    ok = payload.get("ok")
    return Hook(
        agent,
        _required(payload, "native_event"),
        event_type,
        session_id,
        native_id,
        parse_time(event.timestamp, "timestamp"),
        **texts,
        tmux_server=_number(payload, "tmux_server"),
        ok=ok if isinstance(ok, bool) else None,
        background=payload.get("background") is True,
        injected=properties.get("injected") is True,
        subagent_id=_text(properties, "subagent_id"),
        subagent_type=_text(properties, "subagent_type"),
        late=properties.get("spool_late") is True,
        pane_is_shared=False,
    )


def session_end_event(session: Session, reason: str, at: str, *, by: str | None = None) -> NewEvent:
    """The event that ends a session without a hook. It is processed after the session's earlier hook events.

    Reason `closed`: an operator closed the session. Reason `continued`: session `by` continues it.
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


def _text(holder: Mapping[str, object], name: str) -> str | None:
    value = holder.get(name)
    return value if isinstance(value, str) and value else None


def _number(holder: Mapping[str, object], name: str) -> int | None:
    value = holder.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _required(payload: Mapping[str, object], name: str) -> str:
    value = _text(payload, name)
    if value is None:
        raise BadInput(f"the hook event has no {name}; it must be text, not {short_repr(payload.get(name))}")
    return value

"""Events by which an operator changes a session: its name, its chats, its pane. They go through the session's lane."""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.domain.errors import BadInput
from holdfast.domain.event import Event, NewEvent, check_name, new_event
from holdfast.domain.json_value import Json, JsonObject, text_in
from holdfast.domain.lane import SESSIONS
from holdfast.domain.session import STREAM_PREFIX, Binding, Session, SessionChange
from holdfast.domain.text import short_repr

SOURCE = "system"
NAMED, BOUND, UNBOUND, ATTACHED = (f"session.{word}" for word in ("named", "bound", "unbound", "attached"))
TYPES = (NAMED, BOUND, UNBOUND, ATTACHED)
RESERVED_NAMES = ("auto",)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PANE = re.compile(r"%[0-9]{1,9}")


def check_session_name(name: object) -> str:
    """A name that cannot be taken for a bound chat or a repository. Empty: no name."""
    if name == "":
        return ""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in RESERVED_NAMES:
        raise BadInput(f"name {short_repr(name)} is not valid: use 1 to 64 letters, digits and . _ -")
    return name


def check_binding(origin: object, channel: object) -> Binding:
    return Binding(check_name(origin, "origin"), check_name(channel, "channel"))


def check_pane(pane: object) -> str:
    if not isinstance(pane, str) or not _PANE.fullmatch(pane):
        raise BadInput(f"pane {short_repr(pane)} is not a tmux pane id, such as %3; see: tmux list-panes -a")
    return pane


def operator_event(type: str, session: Session, payload: JsonObject, actor: str) -> NewEvent:
    """The event; `actor` is who changed the session."""
    return new_event(
        type,
        {**payload, "by": actor},
        source=SOURCE,
        stream=session.stream,
        properties={"session_id": session.id},
        to=SESSIONS,
    )


def moved_event(holder: str, chat: Binding, to: str) -> NewEvent:
    """States on the stream of a session that one of its chats is bound to another session now. It changes nothing."""
    return new_event(
        UNBOUND,
        {**chat._asdict(), "moved_to": to},
        source=SOURCE,
        stream=STREAM_PREFIX + holder,
        properties={"session_id": holder},
    )


def operator_change(session: Session, event: Event) -> SessionChange:
    """The change that the event makes to the session's row."""
    payload: Mapping[str, Json] = event.payload if isinstance(event.payload, dict) else {}
    about = (session.id, session.agent, session.native_id)
    if event.type == NAMED:
        return SessionChange(*about, name=check_session_name(payload.get("name")))
    if event.type == ATTACHED:
        facts: JsonObject = {name: payload.get(name) for name in ("tmux", "tmux_server", "pane_command")}
        return SessionChange(*about, pane=check_pane(payload.get("pane")), host=text_in(payload, "host"), facts=facts)
    binding = check_binding(payload.get("origin"), payload.get("channel"))
    if event.type == BOUND:
        return SessionChange(*about, bind=(binding,))
    return SessionChange(*about, unbind=(binding,))

"""Answers about agent sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.domain.event import iso_time
from holdfast.domain.json_value import text_in
from holdfast.domain.session import Session
from holdfast.operations.answers.fields import AgentState, Time, extend


@dataclass(frozen=True, slots=True)
class SessionAnswer:
    """One session of an agent. `native_id` is the id that the agent CLI uses."""

    id: str
    stream: str
    agent: str
    native_id: str
    state: AgentState
    cwd: str | None
    pane: str | None
    transcript: str | None
    title: str | None
    last_prompt: str | None
    last_answer: str | None
    name: str | None
    host: str | None
    last_message: str | None
    last_message_origin: str | None
    last_message_at: Time | None
    created_at: Time
    updated_at: Time


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One line of a session's conversation. `kind`: message, prompt, tool, answer, waiting, session or error.

    A message has an id, a sender and a status.
    """

    at: Time
    kind: str
    text: str
    message_id: str | None = None
    origin: str | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True)
class SessionWithTimeline(SessionAnswer):
    """One session, everything else its hooks reported, such as the model, and its last events, oldest first.

    `bindings`: the chats whose messages are for this session.
    """

    facts: Mapping[str, object]
    bindings: list[str]
    timeline: list[TimelineEntry]


@dataclass(frozen=True, slots=True)
class RebuiltSessions:
    """Sessions whose rows are rebuilt from their events. `waiting`: those that were not finished when this answered.

    What was different is in the event `session.rebuilt` of each session. `next`: where to continue; null at the end.
    """

    requested: int
    rebuilt: int
    waiting: int
    next: str | None


def session_answer(session: Session) -> SessionAnswer:
    return SessionAnswer(
        id=session.id,
        stream=session.stream,
        agent=session.agent,
        native_id=session.native_id,
        state=session.state,
        cwd=session.cwd,
        pane=session.pane or None,
        transcript=session.transcript,
        title=session.title,
        last_prompt=session.last_prompt,
        last_answer=session.last_answer,
        name=session.name or None,
        host=session.host,
        last_message=text_in(session.facts, "last_message"),
        last_message_origin=text_in(session.facts, "last_message_origin"),
        last_message_at=text_in(session.facts, "last_message_at"),
        created_at=iso_time(session.created_at_ms),
        updated_at=iso_time(session.updated_at_ms),
    )


def session_with_timeline(session: Session, bindings: list[str], timeline: list[TimelineEntry]) -> SessionWithTimeline:
    facts = dict(session.facts)
    return extend(SessionWithTimeline, session_answer(session), facts=facts, bindings=bindings, timeline=timeline)

"""Answers about agent sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.domain.event import iso_time
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
    created_at: Time
    updated_at: Time


@dataclass(frozen=True, slots=True)
class SessionWithFacts(SessionAnswer):
    """One session and everything else its hooks reported, such as the model."""

    facts: Mapping[str, object]


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
        created_at=iso_time(session.created_at_ms),
        updated_at=iso_time(session.updated_at_ms),
    )


def session_with_facts(session: Session) -> SessionWithFacts:
    return extend(SessionWithFacts, session_answer(session), facts=dict(session.facts))

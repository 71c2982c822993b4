"""Session: the read model of an agent session, one row per session, built from its hook events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.domain.json_value import Json


class SessionState(StrEnum):
    INITIALIZING = "initializing"
    WORKING = "working"
    IDLE = "idle"
    WAITING = "waiting"
    FAILED = "failed"
    ENDED = "ended"
    CLOSED = "closed"


FINISHED_STATES = (SessionState.ENDED, SessionState.CLOSED)
STREAM_PREFIX = "session:"


@dataclass(frozen=True, slots=True)
class Session:
    """The current state of one agent session. `facts` holds values without a column of their own, such as the model."""

    id: str
    agent: str
    native_id: str
    state: SessionState = SessionState.INITIALIZING
    cwd: str | None = None
    pane: str | None = None
    transcript: str | None = None
    title: str | None = None
    last_prompt: str | None = None
    last_answer: str | None = None
    facts: Mapping[str, Json] = field(default_factory=dict)
    created_at_ms: int = 0
    updated_at_ms: int = 0

    @property
    def stream(self) -> str:
        return STREAM_PREFIX + self.id


@dataclass(frozen=True, slots=True)
class SessionChange:
    """The changes of a session by one event, applied in the transaction that settles its delivery.

    None leaves a column unchanged. `facts` are merged into the existing ones; a fact that is None is removed.
    """

    id: str
    agent: str
    native_id: str
    state: SessionState | None = None
    cwd: str | None = None
    pane: str | None = None
    transcript: str | None = None
    title: str | None = None
    last_prompt: str | None = None
    last_answer: str | None = None
    facts: Mapping[str, Json] = field(default_factory=dict)

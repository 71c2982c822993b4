"""Session: the read model of an agent session, one row per session, built from its hook events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from holdfast.domain.json_value import Json, JsonObject


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


class Binding(NamedTuple):
    """A chat whose messages are for one session: the platform it is on, and its id there."""

    origin: str
    channel: str


@dataclass(frozen=True, slots=True)
class Session:
    """The current state of one agent session. `facts` holds values without a column of their own, such as the model.

    `name` was given by an operator; empty means none. `host` is the machine on which the agent runs.
    """

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
    name: str | None = None
    host: str | None = None
    facts: Mapping[str, Json] = field(default_factory=dict)
    created_at_ms: int = 0
    updated_at_ms: int = 0

    @property
    def stream(self) -> str:
        return STREAM_PREFIX + self.id


class SessionTimes(NamedTuple):
    """When a session was created and last changed."""

    created_at_ms: int
    updated_at_ms: int


@dataclass(frozen=True, slots=True)
class SessionChange:
    """The changes of a session by one event, applied in the transaction that settles its delivery.

    None leaves a column unchanged. `facts` are merged into the existing ones, and so are their own keys; what is None
    is removed. `bind` and `unbind`: chats that are bound to this session from now on, whatever session they were bound
    to, or to none. `rebuilt`: the whole row is replaced, with these times; a column that is None is then empty.
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
    name: str | None = None
    host: str | None = None
    bind: tuple[Binding, ...] = ()
    unbind: tuple[Binding, ...] = ()
    facts: Mapping[str, Json] = field(default_factory=dict)
    rebuilt: SessionTimes | None = None


COLUMNS = (
    "state", "cwd", "pane", "transcript", "title", "last_prompt", "last_answer", "name", "host",
)  # fmt: skip
"""The columns that a change may set."""


def apply_change(session: Session | None, change: SessionChange) -> Session:
    """The session after the change, as a store applies it; its times are left alone.

    >>> apply_change(None, SessionChange("s1", "cli", "n1", title="a", facts={"b": None})).facts
    {}
    """
    before = session or Session(change.id, change.agent, change.native_id)
    changed = {name: value for name in COLUMNS if (value := getattr(change, name)) is not None}
    facts = merge_facts(before.facts, change.facts)
    return replace(before, agent=change.agent, native_id=change.native_id, **changed, facts=facts)


def merge_facts(before: Mapping[str, Json], new: Mapping[str, Json]) -> JsonObject:
    """Facts after a change: keys are merged, also in a fact that has keys of its own, and what is None is removed.

    >>> merge_facts({"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"x": None}, "b": None})
    {'a': {'y': 2}}
    """
    merged = dict(before)
    for key, value in new.items():
        if isinstance(value, dict):
            inner = merged.get(key)
            merged[key] = merge_facts(inner if isinstance(inner, dict) else {}, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged

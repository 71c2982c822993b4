"""Sessions: the read model of agent sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from holdfast.domain.session import Binding, Session, SessionChange
from holdfast.store.roles.page import Page

BINDINGS_MAX = 100


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Every given field must match."""

    agent: str | None = None
    state: str | None = None
    native_id: str | None = None
    cwd: str | None = None
    name: str | None = None


class Sessions(Protocol):
    """The read model of agent sessions. Hooks change it through the effects of their settle."""

    async def get(self, id: str) -> Session | None:
        """One session by its id."""

    async def find(self, wanted: SessionFilter, after: str | None, limit: int) -> Page[Session]:
        """Sessions, the most recently changed first."""

    async def count(self) -> dict[str, int]:
        """How many sessions are in each state."""

    async def bound_to(self, binding: Binding) -> str | None:
        """The id of the session that a chat is bound to."""

    async def bindings(self, id: str) -> list[Binding]:
        """The chats that are bound to a session, at most `BINDINGS_MAX`."""

    async def change(self, change: SessionChange) -> None:
        """Create a session or change the given fields of it; others keep their values."""

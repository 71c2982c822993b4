"""Sessions: the read model of agent sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from holdfast.domain.session import Session, SessionChange
from holdfast.store.roles.page import Page


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Every given field must match."""

    agent: str | None = None
    state: str | None = None
    native_id: str | None = None
    cwd: str | None = None


class Sessions(Protocol):
    """The read model of agent sessions. Hooks change it through the effects of their settle."""

    async def get(self, id: str) -> Session | None:
        """One session by its id."""

    async def find(self, wanted: SessionFilter, after: str | None, limit: int) -> Page[Session]:
        """Sessions, the most recently changed first."""

    async def change(self, change: SessionChange) -> None:
        """Create a session or change the given fields of it; others keep their values."""

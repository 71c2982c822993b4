"""Which sessions this process delivers to, if it shares its store with other hosts."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.domain.session import Session
from holdfast.store.roles.sessions import SessionFilter, Sessions

POLL_S = 5.0
PAGE = 500
SESSIONS_MAX = 10_000


class OwnSessions:
    """A duty that reads the list of sessions again and again. `is_own` decides by the session's row."""

    name = "own_sessions"

    def __init__(self, sessions: Sessions, is_own: Callable[[Session], bool]) -> None:
        self._sessions, self._is_own = sessions, is_own
        self._addresses: frozenset[str] = frozenset()

    def addresses(self) -> frozenset[str]:
        return self._addresses

    def add(self, address: str) -> None:
        """A hook of a session of this host came: no need to wait for the next tick."""
        self._addresses |= {address}

    async def tick(self) -> float | None:
        found: set[str] = set()
        after: str | None = None
        while len(found) < SESSIONS_MAX:
            page = await self._sessions.find(SessionFilter(), after, PAGE)
            # Closed ones too: a message that came late has to expire.
            found.update(session.stream for session in page.items if self._is_own(session))
            after = page.next
            if after is None:
                break
        self._addresses = frozenset(found)
        return POLL_S

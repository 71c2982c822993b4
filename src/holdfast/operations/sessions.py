"""Operator verbs about agent sessions: list, show, close."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.agents.hooks.hook import CLOSED, session_end_event
from holdfast.domain.errors import BadInput, NotFound
from holdfast.domain.event import iso_time
from holdfast.domain.session import Session, SessionState
from holdfast.domain.text import short_repr
from holdfast.operations.answers import LIMIT_DEFAULT, check_limit, fitting, session_shape
from holdfast.ports import Clock
from holdfast.store.roles.sessions import SessionFilter
from holdfast.store.roles.store import Store

CLOSE_WAIT_S = 5.0
CLOSE_LOOK_S = 0.02
SAME_MAX = 10


class SessionVerbs:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def find(
        self,
        *,
        agent: str | None = None,
        state: str | None = None,
        native_id: str | None = None,
        cwd: str | None = None,
        after: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> dict[str, Any]:
        """The one that changed last first."""
        if state is not None and state not in set(SessionState):
            raise BadInput(f"state {short_repr(state)} is unknown; use one of {', '.join(SessionState)}")
        wanted = SessionFilter(agent, state, native_id, cwd)
        page = await self._store.sessions.find(wanted, _check_cursor(after), check_limit(limit))
        items = fitting(session_shape(session) for session in page.items)
        if len(items) == len(page.items):
            return {"items": items, "next": page.next}
        last = page.items[len(items) - 1]
        return {"items": items, "next": f"{last.updated_at_ms}.{last.id}"}

    async def show(self, id: str) -> dict[str, Any]:
        """By our id or by the CLI's own, with everything that is known of it."""
        session = await self._get(id)
        return {**session_shape(session), "facts": dict(session.facts)}

    async def close(self, id: str) -> dict[str, Any]:
        """Close a session for good: in its lane, behind what its hooks told before. It is over when this returns,
        unless its lane is held up; then it will be, and the answer shows the state it is still in."""
        session = await self._get(id)
        if session.state is not SessionState.CLOSED:
            at_ms = self._clock.now_ms()
            await self._store.events.append([session_end_event(session, CLOSED, iso_time(at_ms))])
            session = await self._until_closed(session)
        return session_shape(session)

    async def _until_closed(self, session: Session) -> Session:
        for _ in range(round(CLOSE_WAIT_S / CLOSE_LOOK_S)):
            session = await self._store.sessions.get(session.id) or session
            if session.state is SessionState.CLOSED:
                break
            await asyncio.sleep(CLOSE_LOOK_S)
        return session

    async def _get(self, id: str) -> Session:
        session = await self._store.sessions.get(id)
        if session is not None:
            return session
        found = (await self._store.sessions.find(SessionFilter(native_id=id), None, SAME_MAX)).items
        if not found:
            raise NotFound(f"there is no session {short_repr(id)}, by our id or by the agent's own")
        if len(found) > 1:
            raise BadInput(f"{short_repr(id)} names several sessions: {', '.join(one.id for one in found)}; choose one")
        return found[0]


def _check_cursor(after: str | None) -> str | None:
    if after is None:
        return None
    time, dot, _ = after.partition(".")
    if not dot or not (time.isascii() and time.isdigit() and len(time) <= 18):
        raise BadInput(f"after={short_repr(after)} is not a cursor: pass what `next` said on the page before")
    return after

"""Operator verbs about agent sessions: list, show, close."""

from __future__ import annotations

import asyncio

from holdfast.agents.hooks.hook import CLOSED, session_end_event
from holdfast.domain.errors import BadInput, NotFound
from holdfast.domain.event import iso_time
from holdfast.domain.session import Session, SessionState
from holdfast.domain.text import short_repr
from holdfast.operations.answers.page import LIMIT_DEFAULT, Page, bad_cursor, check_limit, fit_page, is_number
from holdfast.operations.answers.sessions import SessionAnswer, SessionWithFacts, session_answer, session_with_facts
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
    ) -> Page[SessionAnswer]:
        """Sessions, last changed first."""
        if state is not None and state not in set(SessionState):
            raise BadInput(f"state {short_repr(state)} is unknown; use one of {', '.join(SessionState)}")
        session_filter = SessionFilter(agent, state, native_id, cwd)
        page = await self._store.sessions.find(session_filter, _check_cursor(after), check_limit(limit))
        items = fit_page(session_answer(session) for session in page.items)
        if len(items) == len(page.items):
            return Page(items, page.next)
        last = page.items[len(items) - 1]
        return Page(items, f"{last.updated_at_ms}.{last.id}")

    async def show(self, id: str) -> SessionWithFacts:
        """One session, by its id or by the agent's own id."""
        return session_with_facts(await self._get(id))

    async def close(self, id: str) -> SessionAnswer:
        """Close a session, in its lane after the hooks that came before.

        Waits up to `CLOSE_WAIT_S` until it is closed. If its lane is blocked, the answer shows the state it still has.
        """
        session = await self._get(id)
        if session.state is not SessionState.CLOSED:
            at_ms = self._clock.now_ms()
            await self._store.events.append([session_end_event(session, CLOSED, iso_time(at_ms))])
            session = await self._until_closed(session)
        return session_answer(session)

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
        sessions = (await self._store.sessions.find(SessionFilter(native_id=id), None, SAME_MAX)).items
        if not sessions:
            raise NotFound(f"there is no session {short_repr(id)}, by our id or by the agent's own")
        if len(sessions) > 1:
            ids = ", ".join(session.id for session in sessions)
            raise BadInput(f"{short_repr(id)} names several sessions: {ids}; choose one")
        return sessions[0]


def _check_cursor(after: str | None) -> str | None:
    if after is None:
        return None
    time, dot, _ = after.partition(".")
    if not dot or not is_number(time):
        raise bad_cursor(after)
    return after

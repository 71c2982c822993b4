"""The read model of agent sessions on PostgreSQL."""

from __future__ import annotations

from holdfast.domain.session import Session as AgentSession
from holdfast.domain.session import SessionChange
from holdfast.ports import Clock
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.page import Page
from holdfast.store.roles.sessions import SessionFilter
from holdfast.store.rows import session_cursor, session_start, session_values, to_session


class PostgresSessions:
    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def get(self, id: str) -> AgentSession | None:
        rows = await self._pool.rows(sql.session_get, id)
        return to_session(rows[0]) if rows else None

    async def find(self, wanted: SessionFilter, after: str | None, limit: int) -> Page[AgentSession]:
        values = (*session_start(after), wanted.agent, wanted.state, wanted.native_id, wanted.cwd, limit)
        found = [to_session(row) for row in await self._pool.rows(sql.session_page, *values)]
        return Page(found, session_cursor(found, limit))

    async def change(self, change: SessionChange) -> None:
        values = (*session_values(change), self._clock.now_ms())
        await self._pool.run(lambda session: session.run(sql.session_change, *values), repeatable=True)

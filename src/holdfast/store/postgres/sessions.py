"""The read model of agent sessions on PostgreSQL."""

from __future__ import annotations

from holdfast.domain.session import Binding, SessionChange
from holdfast.domain.session import Session as AgentSession
from holdfast.ports import Clock
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.page import Page
from holdfast.store.roles.sessions import BINDINGS_MAX, SessionFilter
from holdfast.store.rows import is_state_only, session_cursor, session_start, session_values, to_session


class PostgresSessions:
    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def get(self, id: str) -> AgentSession | None:
        rows = await self._pool.rows(sql.session_get, id)
        return to_session(rows[0]) if rows else None

    async def find(self, wanted: SessionFilter, after: str | None, limit: int) -> Page[AgentSession]:
        start = session_start(after)
        if is_state_only(wanted):
            rows = await self._pool.rows(sql.session_page_state, *start, wanted.state, limit)
        else:
            values = (*start, wanted.agent, wanted.state, wanted.native_id, wanted.cwd, wanted.name, limit)
            rows = await self._pool.rows(sql.session_page, *values)
        found = [to_session(row) for row in rows]
        return Page(found, session_cursor(found, limit))

    async def count(self) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._pool.rows(sql.session_count)}

    async def bound_to(self, binding: Binding) -> str | None:
        session = await self._pool.value(sql.binding_get, *binding)
        return None if session is None else str(session)

    async def bindings(self, id: str) -> list[Binding]:
        return [Binding(*row) for row in await self._pool.rows(sql.bindings_of, id, BINDINGS_MAX)]

    async def change(self, change: SessionChange) -> None:
        now_ms = self._clock.now_ms()
        await self._pool.run(lambda connection: change_session(connection, change, now_ms), repeatable=True)


async def change_session(connection: PooledConnection, change: SessionChange, now_ms: int) -> None:
    """Change the row in a transaction that is already open."""
    if change.rebuilt is not None:
        await connection.run(sql.session_remove, change.id)
    await connection.run(sql.session_change, *session_values(change, now_ms))

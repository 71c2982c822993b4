"""The read model of agent sessions on SQLite."""

from __future__ import annotations

from holdfast.domain.session import Session, SessionChange
from holdfast.ports import Clock
from holdfast.store.roles.page import Page
from holdfast.store.roles.sessions import SessionFilter
from holdfast.store.rows import session_cursor, session_start, session_values, to_session
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer


class SqliteSessions:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock

    async def get(self, id: str) -> Session | None:
        rows = await self._reader.run(lambda c: c.rows(sql.session_get, (id,)))
        return to_session(rows[0]) if rows else None

    async def find(self, wanted: SessionFilter, after: str | None, limit: int) -> Page[Session]:
        values = (*session_start(after), wanted.agent, wanted.state, wanted.native_id, wanted.cwd, limit)
        found = [to_session(row) for row in await self._reader.run(lambda c: c.rows(sql.session_page, values))]
        return Page(found, session_cursor(found, limit))

    async def change(self, change: SessionChange) -> None:
        now_ms = self._clock.now_ms()
        await self._writer.run(lambda connection: change_session(connection, change, now_ms))


def change_session(connection: Connection, change: SessionChange, now_ms: int) -> None:
    """Change the row in a transaction that is already open."""
    connection.run(sql.session_change, (*session_values(change), now_ms))

"""The read model of agent sessions on SQLite."""

from __future__ import annotations

from holdfast.domain.session import Binding, Session, SessionChange
from holdfast.ports import Clock
from holdfast.store.roles.page import Page
from holdfast.store.roles.sessions import BINDINGS_MAX, SessionFilter
from holdfast.store.rows import binding_text, is_state_only, session_cursor, session_start, session_values, to_session
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
        start = session_start(after)
        if is_state_only(wanted):
            rows = await self._reader.run(lambda c: c.rows(sql.session_page_state, (*start, wanted.state, limit)))
        else:
            values = (*start, wanted.agent, wanted.state, wanted.native_id, wanted.cwd, wanted.name, limit)
            rows = await self._reader.run(lambda c: c.rows(sql.session_page, values))
        found = [to_session(row) for row in rows]
        return Page(found, session_cursor(found, limit))

    async def count(self) -> dict[str, int]:
        return dict(await self._reader.run(lambda c: c.rows(sql.session_count)))

    async def bound_to(self, binding: Binding) -> str | None:
        rows = await self._reader.run(lambda c: c.rows(sql.binding_get, binding))
        return rows[0][0] if rows else None

    async def bindings(self, id: str) -> list[Binding]:
        rows = await self._reader.run(lambda c: c.rows(sql.bindings_of, (id, BINDINGS_MAX)))
        return [Binding(*row) for row in rows]

    async def change(self, change: SessionChange) -> None:
        now_ms = self._clock.now_ms()
        await self._writer.run(lambda connection: change_session(connection, change, now_ms))


def change_session(connection: Connection, change: SessionChange, now_ms: int) -> None:
    """Change the row in a transaction that is already open."""
    if change.rebuilt is not None:
        connection.run(sql.session_remove, (change.id,))
    connection.run(sql.session_change, session_values(change, now_ms))
    if (bindings := binding_text(change)) is not None:
        connection.run(sql.bindings_end, (bindings, change.id))
        connection.run(sql.bindings_begin, (bindings, change.id))

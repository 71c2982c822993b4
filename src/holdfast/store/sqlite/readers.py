"""Readers of many streams on SQLite, and the streams in which they lag."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.domain.reader import BEGINNING, Reader
from holdfast.ports import Chance, Clock
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.readers import ERROR_MAX, SURVEY_MAX, NewEvents, Progress, ReaderState, StreamLease
from holdfast.store.rows import replay_details
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.reader import Reader as ReadConnection
from holdfast.store.sqlite.receipts import write_action
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer


class SqliteReaders:
    def __init__(
        self, writer: Writer, reader: ReadConnection, clock: Clock, chance: Chance, changed: Callable[[str], None]
    ) -> None:
        self._writer, self._reader, self._clock, self._chance = writer, reader, clock, chance
        self._changed = changed

    async def register(self, readers: Sequence[Reader], *, only: str | None = None) -> None:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> bool:
            known = {row[0]: Reader(*row[:3]) for row in connection.rows(sql.reader_all)}
            changed = [reader for reader in readers if known.get(reader.name) != reader]
            for name, pattern, start in ((one.name, one.pattern, one.start) for one in changed):
                connection.run(sql.reader_put, (name, pattern, start, "" if start == BEGINNING else None, now_ms))
            connection.many(sql.reader_seen, [(now_ms, reader.name) for reader in readers])
            names = {reader.name for reader in readers}
            gone = [name for name in known if only is not None and name.startswith(only) and name not in names]
            _end(connection, gone)
            if changed or gone:
                connection.run(sql.contract_bump)
            return bool(changed or gone)

        if await self._writer.run(work):
            self._changed("contracts")

    async def all(self) -> list[Reader]:
        return [Reader(*row[:3]) for row in await self._reader.run(lambda c: c.rows(sql.reader_all))]

    async def survey(self, name: str) -> bool:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> bool:
            found = [row for row in connection.rows(sql.reader_all) if row[0] == name and row[3] is not None]
            if not found:
                return False
            reader, after = Reader(*found[0][:3]), found[0][3]
            page = connection.rows(sql.survey_page, (after, reader.prefix, SURVEY_MAX))
            new_events = [NewEvents(name, id, 1, head, since) for id, head, since in page if reader.matches(id)]
            _mark(connection, new_events, now_ms)
            more = len(page) == SURVEY_MAX and page[-1][0].startswith(reader.prefix)
            connection.run(sql.reader_surveyed, (page[-1][0] if more else None, name))
            return more

        return await self._writer.run(work, durable=False, heavy=True)

    async def mark(self, new_events: Sequence[NewEvents]) -> None:
        now_ms = self._clock.now_ms()
        await self._writer.run(lambda connection: _mark(connection, new_events, now_ms), durable=False)
        self._changed("lagging")

    async def claim(self, name: str, limit: int, lease_ms: int, owner: int | None = None) -> list[StreamLease]:
        now_ms, token = self._clock.now_ms(), self._chance.token()

        def work(connection: Connection) -> list[StreamLease]:
            if not connection.run(sql.lagging_claim, (owner, token, now_ms + lease_ms, name, now_ms, limit)):
                return []
            rows = connection.rows(sql.lagging_leased, (token,))
            return [StreamLease(*row)._replace(alarmed=bool(row[6])) for row in rows]

        return await self._writer.run(work, durable=False)

    async def settle(self, results: Sequence[Progress]) -> set[tuple[str, str]]:
        now_ms = self._clock.now_ms()
        return await self._writer.run(lambda connection: _settle(connection, results, now_ms), durable=False)

    async def extend(self, leases: Sequence[StreamLease], lease_ms: int) -> None:
        until = self._clock.now_ms() + lease_ms
        rows = [(until, lease.reader, lease.stream, lease.token) for lease in leases]
        await self._writer.run(lambda connection: connection.many(sql.lagging_extend, rows), durable=False)

    async def reclaim(self, owner: int | None = None) -> int:
        now_ms = self._clock.now_ms()
        return await self._writer.run(lambda c: c.run(sql.lagging_reclaim, (now_ms, owner)), durable=False)

    async def next_due(self, names: Sequence[str]) -> int | None:
        now_ms = self._clock.now_ms()
        found = await self._reader.run(lambda c: [c.rows(sql.lagging_next, (name,))[0][0] for name in names])
        due = [at for at in found if at is not None]
        return max(0, min(due) - now_ms) if due else None

    async def states(self) -> list[ReaderState]:
        def read(connection: Connection) -> list[ReaderState]:
            states = []
            for row in connection.rows(sql.reader_states):
                oldest = connection.rows(sql.reader_oldest, (row[0],))[0][0]
                states.append(ReaderState(*row)._replace(active=bool(row[3]), oldest_ms=oldest))
            return states

        return await self._reader.run(read)

    async def expire(self, before_ms: int) -> list[str]:
        def work(connection: Connection) -> list[str]:
            names = [name for (name,) in connection.rows(sql.reader_unseen, (before_ms,))]
            _end(connection, names)
            if names:
                connection.run(sql.contract_bump)
            return names

        names = await self._writer.run(work)
        if names:
            self._changed("contracts")
        return names

    async def record_replay(self, stream: str, first_seq: int, last_seq: int, target: str, by: Actor) -> None:
        now_ms, details = self._clock.now_ms(), replay_details(stream, first_seq, last_seq, target)
        await self._writer.run(lambda connection: write_action(connection, by, now_ms, "replay", **details))


def _mark(connection: Connection, new_events: Sequence[NewEvents], now_ms: int) -> None:
    for reader, stream, first_seq, head, since_ms in new_events:
        connection.run(sql.cursor_begin, (reader, stream, first_seq, head, now_ms))
        connection.run(sql.lagging_mark, (reader, stream, head, since_ms, now_ms))


def _settle(connection: Connection, results: Sequence[Progress], now_ms: int) -> set[tuple[str, str]]:
    held = set()
    for lease, position, since_ms, delay_ms, error, alarmed in results:
        key = (lease.reader, lease.stream)
        found = connection.rows(sql.lagging_held, (*key, lease.token))
        if not found:
            continue
        held.add(key)
        if position > lease.position:
            connection.run(sql.cursor_advance, (*key, position, now_ms))
        if error is None and found[0][0] <= position:
            connection.run(sql.lagging_done, key)
        else:
            said = None if error is None else error[:ERROR_MAX]
            connection.run(sql.lagging_again, (*key, since_ms, now_ms + delay_ms, said, int(alarmed)))
    return held


def _end(connection: Connection, names: Sequence[str]) -> None:
    connection.many(sql.reader_end, [(name,) for name in names])
    connection.many(sql.lagging_forget, [(name,) for name in names])

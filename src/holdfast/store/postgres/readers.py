"""Readers of many streams on PostgreSQL, and the streams in which they lag."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.domain.reader import BEGINNING, Reader
from holdfast.ports import Chance, Clock
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.receipts import write_action
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.readers import ERROR_MAX, SURVEY_MAX, NewEvents, Progress, ReaderState, StreamLease
from holdfast.store.rows import replay_details


class PostgresReaders:
    """Every claim and settle is one statement, a transaction by itself, and needs no flush: a crash repeats events."""

    def __init__(self, pool: Pool, clock: Clock, chance: Chance, changed: Callable[[str], None]) -> None:
        self._pool, self._clock, self._chance, self._changed = pool, clock, chance, changed

    async def register(self, readers: Sequence[Reader], *, only: str | None = None) -> None:
        await self._pool.opened()
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> bool:
            known = {row[0]: Reader(*row[:3]) for row in await connection.rows(sql.reader_all)}
            changed = [reader for reader in readers if known.get(reader.name) != reader]
            for name, pattern, start in ((one.name, one.pattern, one.start) for one in changed):
                surveyed = "" if start == BEGINNING else None
                await connection.run(sql.reader_put, name, pattern, start, surveyed, now_ms)
            names = [reader.name for reader in readers]
            await connection.run(sql.reader_seen, now_ms, names)
            gone = [name for name in known if only is not None and name.startswith(only) and name not in names]
            await _end(connection, gone)
            if changed or gone:
                await connection.run(sql.contract_bump)
            return bool(changed or gone)

        if await self._pool.run(work, repeatable=True):
            self._changed("contracts")

    async def all(self) -> list[Reader]:
        return [Reader(*row[:3]) for row in await self._pool.rows(sql.reader_all)]

    async def survey(self, name: str) -> bool:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> bool:
            found = await connection.rows(sql.reader_survey, name)
            if not found:
                return False
            reader = Reader(name, found[0][0], found[0][1])
            page = await connection.rows(sql.survey_page, found[0][2], reader.prefix, SURVEY_MAX)
            new_events = [NewEvents(name, id, 1, head, since) for id, head, since in page if reader.matches(id)]
            await _mark(connection, new_events, now_ms)
            more = len(page) == SURVEY_MAX and page[-1][0].startswith(reader.prefix)
            await connection.run(sql.reader_surveyed, page[-1][0] if more else None, name)
            return more

        return await self._pool.run(work, durable=False)

    async def mark(self, new_events: Sequence[NewEvents]) -> None:
        now_ms = self._clock.now_ms()
        await self._pool.single(lambda connection: _mark(connection, new_events, now_ms))
        self._changed("lagging")

    async def claim(self, name: str, limit: int, lease_ms: int, owner: int | None = None) -> list[StreamLease]:
        now_ms, token = self._clock.now_ms(), self._chance.token()
        values = owner, token, now_ms + lease_ms, name, now_ms, limit
        rows = await self._pool.single_once(lambda connection: connection.rows(sql.lagging_claim, *values))
        return [StreamLease(*row) for row in rows]

    async def settle(self, results: Sequence[Progress]) -> set[tuple[str, str]]:
        now_ms = self._clock.now_ms()
        columns = [
            [one.lease.reader for one in results],
            [one.lease.stream for one in results],
            [one.lease.token for one in results],
            [one.position for one in results],
            [one.since_ms for one in results],
            [now_ms + one.delay_ms for one in results],
            [None if one.error is None else one.error[:ERROR_MAX] for one in results],
            [one.alarmed for one in results],
        ]
        rows = await self._pool.single(lambda connection: connection.rows(sql.lagging_settle, *columns, now_ms))
        return {(row[0], row[1]) for row in rows}

    async def extend(self, leases: Sequence[StreamLease], lease_ms: int) -> None:
        until = self._clock.now_ms() + lease_ms
        readers, streams = [lease.reader for lease in leases], [lease.stream for lease in leases]
        tokens = [lease.token for lease in leases]
        await self._pool.single(lambda connection: connection.run(sql.lagging_extend, until, readers, streams, tokens))

    async def reclaim(self, owner: int | None = None) -> int:
        now_ms = self._clock.now_ms()
        return await self._pool.single(lambda connection: connection.run(sql.lagging_reclaim, now_ms, owner or 0))

    async def next_due(self, names: Sequence[str]) -> int | None:
        found: int | None = await self._pool.value(sql.lagging_next, list(names))
        return None if found is None else max(0, found - self._clock.now_ms())

    async def states(self) -> list[ReaderState]:
        return [
            ReaderState(*row)._replace(oldest_ms=await self._pool.value(sql.reader_oldest, row[0]))
            for row in await self._pool.rows(sql.reader_states)
        ]

    async def expire(self, before_ms: int) -> list[str]:
        async def work(connection: PooledConnection) -> list[str]:
            names = [row[0] for row in await connection.rows(sql.reader_unseen, before_ms)]
            if names:
                await _end(connection, names)
                await connection.run(sql.contract_bump)
            return names

        names = await self._pool.run(work)
        if names:
            self._changed("contracts")
        return names

    async def record_replay(self, stream: str, first_seq: int, last_seq: int, target: str, by: Actor) -> None:
        now_ms, details = self._clock.now_ms(), replay_details(stream, first_seq, last_seq, target)
        await self._pool.run(lambda connection: write_action(connection, by, now_ms, "replay", **details))


async def _mark(connection: PooledConnection, new_events: Sequence[NewEvents], now_ms: int) -> None:
    if new_events:
        columns = [list(column) for column in zip(*new_events, strict=True)]
        await connection.run(sql.lagging_mark, *columns, now_ms)


async def _end(connection: PooledConnection, names: Sequence[str]) -> None:
    await connection.run(sql.reader_end, names)
    await connection.run(sql.lagging_forget, names)

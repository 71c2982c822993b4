"""Copy a SQLite store to an empty PostgreSQL database: every row, with its ids, in batches that can be resumed.

Each batch is one transaction of the target, together with the position it reached: after a kill, the copy continues
there. From the beginning, the old store refuses what applications would write, so that nothing is left behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.domain.errors import BadInput, StoreError, StoreMissing
from holdfast.ports import SystemClock
from holdfast.store.copy_source import CopySource, Page
from holdfast.store.copy_tables import COPIED, META_OF_ONE_STORE, CopiedTable
from holdfast.store.open import keep_closed
from holdfast.store.pgmq.queue_admin import move_queue
from holdfast.store.postgres.hosts import Hosts
from holdfast.store.postgres.migrate import COPY_KEY, migrate, version_known, version_of
from holdfast.store.postgres.place import Place, parse_place
from holdfast.store.postgres.pool import translated
from holdfast.store.postgres.pooled_connection import PooledConnection, Row
from holdfast.store.roles.queue_admin import QueueKind
from holdfast.version import __version__

COPIED_KEY = "copied_from"
Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many rows of it are done, and how many there are."""

_PUT_META = """
INSERT INTO {schema}.meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
_COLUMNS = """
SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2
"""
_IN_USE = """
SELECT EXISTS (SELECT FROM {schema}.owners_alive()) OR EXISTS (SELECT FROM {schema}.events)
    OR EXISTS (SELECT FROM {schema}.contracts) OR EXISTS (SELECT FROM {schema}.receipts)
    OR EXISTS (SELECT FROM {schema}.tokens)
"""
_COUNTS = """
UPDATE {schema}.counts SET
  events = (SELECT count(*) FROM {schema}.events) - (SELECT count(*) FROM {schema}.unrouted),
  unmatched = (SELECT count(*) FROM {schema}.unmatched),
  streams = (SELECT count(*) FROM {schema}.streams) - (
    SELECT count(*) FROM {schema}.unrouted u JOIN {schema}.events e ON e.n = u.event
    WHERE e.stream IS NOT NULL AND e.seq = 1)
"""
_CONTRACTS_VERSION = """
UPDATE {schema}.meta SET value = greatest(value::bigint + 1, $1)::text WHERE key = 'contracts_version'
"""
_HEADS = "SELECT chain, seq, head FROM {schema}.nodes ORDER BY chain"
_LINKS = "SELECT chain, count(*), max(seq) FROM {schema}.receipts GROUP BY chain ORDER BY chain"


class CopyReport(NamedTuple):
    """`rows` of each table; `resumed`: an earlier copy was interrupted and this one continued it."""

    rows: dict[str, int]
    resumed: bool


async def copy_store(
    source_url: str, target_url: str, progress: Progress = lambda what, done, total: None
) -> CopyReport:
    """Copy, verify, and mark the old store as moved. Its keeper must be stopped."""
    place = parse_place(target_url)
    with keep_closed(source_url, "holdfast db copy") as path, CopySource(path) as source, translated():
        connection = await Hosts(place.dsn, place.schema).connect(cached=False)
        try:
            return await _Copy(source, connection, place, progress).run()
        finally:
            connection.drop()


def cancel_copy(source_url: str) -> None:
    """Let the old store be used again, after a copy that is not wanted any more."""
    with keep_closed(source_url, "holdfast db copy --cancel") as path, CopySource(path) as source:
        source.unmark()


class Position(NamedTuple):
    """The last row that was copied."""

    table: str
    after: list[int | str] | None


def _read_position(state: str) -> Position:
    stored = json.loads(state)
    return Position(str(stored["table"]), stored["after"])


class _Copy:
    def __init__(self, source: CopySource, target: PooledConnection, place: Place, progress: Progress) -> None:
        self._source, self._target, self._place, self._progress = source, target, place, progress
        self._types: dict[str, dict[str, str]] = {}

    async def run(self) -> CopyReport:
        state = await self._prepare()
        resumed = state is not None
        if state != COPIED_KEY:
            self._source.mark(f"this store is being moved to {self._place.shown}; publish there when that is complete")
            await self._copy(state)
            await self._finish()
            await self._verify()
            await self._open()
        self._source.mark(f"this store was moved to {self._place.shown}; publish there")
        return CopyReport({table.name: self._source.count(table) for table in COPIED}, resumed)

    async def _prepare(self) -> str | None:
        """The state of an interrupted copy of this store, `COPIED_KEY` after a complete one, None before the first."""
        target, epoch = self._target, self._source.meta()["epoch"]
        if await version_of(target) == 0:
            await migrate(target, self._place.schema, __version__)
        if await version_of(target) != version_known():
            raise StoreMissing("the target is not set up for this version; run: holdfast db migrate --store TARGET")
        # FOR UPDATE: the server may still be committing the last batch of a copy that was killed.
        meta = dict(await target.rows("SELECT key, value FROM {schema}.meta FOR UPDATE"))
        if meta.get(COPIED_KEY) == epoch:
            return COPIED_KEY
        if COPY_KEY in meta:
            if json.loads(meta[COPY_KEY])["from"] != epoch:
                raise BadInput("the target holds an unfinished copy of another store; use another schema")
            return str(meta[COPY_KEY])
        if await target.value(_IN_USE):
            raise BadInput("the target is in use or holds data already; use an empty database, or another schema=NAME")
        await self._move_queue(QueueKind.NATIVE)  # rows are copied into tables; the queue moves at the end
        await target.run(_PUT_META, COPY_KEY, json.dumps({"from": epoch, "table": COPIED[0].name, "after": None}))
        return None

    async def _copy(self, state: str | None) -> None:
        reached = Position(COPIED[0].name, None) if state is None else _read_position(state)
        names = [table.name for table in COPIED]
        for table in COPIED[names.index(reached.table) :]:
            after = reached.after if table.name == reached.table else None
            total, done = self._source.count(table), 0
            while (page := self._source.page(table, after)).rows:
                after, done = page.last, done + len(page.rows)
                await self._write(table, page)
                self._progress(f"copying {table.name}", done, total)

    async def _write(self, table: CopiedTable, page: Page) -> None:
        rows = await self._converted(table, page)
        position = json.dumps({"from": self._source.meta()["epoch"], "table": table.name, "after": page.last})
        async with self._target.raw.transaction():
            await self._target.run(_PUT_META, COPY_KEY, position)  # first: a successor waits for this row
            await self._target.raw.copy_records_to_table(
                table.name, schema_name=self._place.schema, columns=page.columns, records=rows
            )

    async def _converted(self, table: CopiedTable, page: Page) -> list[Row]:
        """SQLite has no booleans."""
        types = await self._columns(table)
        flags = [types[column] == "boolean" for column in page.columns]
        if not any(flags):
            return page.rows
        return [
            tuple(bool(value) if flag else value for value, flag in zip(row, flags, strict=True)) for row in page.rows
        ]

    async def _columns(self, table: CopiedTable) -> dict[str, str]:
        if table.name not in self._types:
            self._types[table.name] = dict(await self._target.rows(_COLUMNS, self._place.schema, table.name))
        return self._types[table.name]

    async def _finish(self) -> None:
        """The numbers that the target continues with."""
        target, meta = self._target, self._source.meta()
        async with target.raw.transaction():
            for table in COPIED:
                if table.numbered and (last := self._source.last_number(table)):
                    named = f"pg_get_serial_sequence('{{schema}}.{table.name}', '{table.key[0]}')"
                    await target.value(f"SELECT setval({named}, $1)", last)
            await target.run(_COUNTS)
            await target.run(_CONTRACTS_VERSION, int(meta["contracts_version"]))
            for key in sorted(meta.keys() - META_OF_ONE_STORE):
                await target.run(_PUT_META, key, meta[key])

    async def _verify(self) -> None:
        """Compare every row of every table, the number of rows, and the heads and lengths of the receipt chains."""
        for table in COPIED:
            after, done, total = None, 0, self._source.count(table)
            while (page := self._source.page(table, after)).rows:
                if await self._stored(table, page, after) != await self._converted(table, page):
                    raise StoreError(
                        f"the copy differs from the original in {table.name}, after {after}; run it again "
                        "with an empty target"
                    )
                after, done = page.last, done + len(page.rows)
                self._progress(f"verifying {table.name}", done, total)
            stored = await self._target.value(f"SELECT count(*) FROM {{schema}}.{table.name}")  # noqa: S608
            if stored != total:
                raise StoreError(f"the copy has {stored:,} rows in {table.name}, the original {total:,}")
        heads = [(chain, seq, bytes(head)) for chain, seq, head in await self._target.rows(_HEADS)]
        links = [tuple(row) for row in await self._target.rows(_LINKS)]
        if heads != self._source.heads() or links != self._source.links():
            raise StoreError("the receipt chains of the copy end elsewhere than those of the original")

    async def _stored(self, table: CopiedTable, page: Page, after: Sequence[object] | None) -> list[Row]:
        """The rows of the target that correspond to a page."""
        types = await self._columns(table)
        key = ", ".join(f'{column} COLLATE "C"' if types[column] == "text" else column for column in table.key)
        marks = ", ".join(f"${number + 1}" for number in range(len(table.key)))
        where = f"WHERE ({key}) > ({marks})" if after is not None else ""
        columns = ", ".join(f'"{column}"' for column in page.columns)
        text = f"SELECT {columns} FROM {{schema}}.{table.name} {where} ORDER BY {key} LIMIT {len(page.rows)}"  # noqa: S608
        return [tuple(row) for row in await self._target.rows(text, *(after or ()))]

    async def _move_queue(self, kind: QueueKind) -> None:
        async with self._target.raw.transaction():
            await move_queue(self._target, self._place.schema, kind, None, SystemClock().now_ms())

    async def _open(self) -> None:
        """From here on the target can be used."""
        async with self._target.raw.transaction():
            if self._place.queue is not None:
                await self._move_queue(self._place.queue)
            await self._target.run(_PUT_META, COPIED_KEY, self._source.meta()["epoch"])
            await self._target.run("DELETE FROM {schema}.meta WHERE key = $1", COPY_KEY)
        for table in COPIED:
            await self._target.run(f"ANALYZE {{schema}}.{table.name}")

"""The feed on SQLite. Writers commit one after the other, so events become visible in the order of their numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence

from holdfast.domain.event import Event
from holdfast.store.roles.events import StreamRow
from holdfast.store.roles.feed import FeedPage, FeedPosition
from holdfast.store.roles.page import PAGE_BYTES_MAX
from holdfast.store.rows import event_bytes
from holdfast.store.sqlite.connection import Connection, Row
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql


class SqliteFeed:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def heads(self, streams: Sequence[str]) -> dict[str, StreamRow]:
        names = json.dumps(list(streams))
        rows = await self._reader.run(lambda c: c.rows(sql.stream_heads, (names,)))
        return {row[0]: StreamRow(*row) for row in rows}

    async def newest(self) -> FeedPosition:
        rows = await self._reader.run(lambda c: c.rows(sql.feed_newest))
        return FeedPosition(rows[0][0])

    async def visible(self, position: FeedPosition, limit: int) -> FeedPage:
        rows = await self._reader.run(lambda c: _read(c, position.low, limit))
        return FeedPage([Event(*row) for row in rows], FeedPosition(rows[-1][0]) if rows else position)


def _read(connection: Connection, after: int, limit: int) -> list[Row]:
    rows: list[Row] = []
    size = 0

    def take(row: Row) -> bool:
        nonlocal size
        rows.append(row)
        size += event_bytes(row)
        return size < PAGE_BYTES_MAX

    connection.each(sql.feed_read, (after, limit), take)
    return rows

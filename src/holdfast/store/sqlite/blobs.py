"""Files of messages on SQLite."""

from __future__ import annotations

from holdfast.ports import Clock
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer


class SqliteBlobs:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock

    async def put(self, sha256: str, data: bytes) -> bool:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> bool:
            known = connection.run(sql.blob_keep, (now_ms, sha256)) > 0
            if not known:
                connection.run(sql.blob_add, (sha256, data, now_ms))
            return not known

        return await self._writer.run(work, heavy=True)

    async def get(self, sha256: str) -> bytes | None:
        rows = await self._reader.run(lambda c: c.rows(sql.blob_get, (sha256,)))
        return bytes(rows[0][0]) if rows else None

    async def has(self, sha256: str) -> bool:
        return bool(await self._reader.run(lambda c: c.rows(sql.blob_has, (sha256,))))

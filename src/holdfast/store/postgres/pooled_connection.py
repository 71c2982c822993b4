"""A connection as the store uses it: a thin wrapper around asyncpg that fills in the store's schema."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.store.postgres.place import in_schema

Row = Any
"""An asyncpg record: it unpacks and indexes like a tuple."""

_LOOK = "SELECT pg_backend_pid(), (extract(epoch FROM clock_timestamp()) * 1000)::bigint"


class Facts(NamedTuple):
    """`pooled`: another server process answers than was connected to, so there is a pooler. `now_ms`: server time."""

    pooled: bool
    now_ms: int


class PooledConnection:
    """A connection that is used by one work at a time."""

    def __init__(self, raw: Any, schema: str) -> None:
        self.raw, self._schema = raw, schema
        self.pid = int(raw.get_server_pid())
        self._texts: dict[str, str] = {}

    async def look(self) -> Facts:
        """Measure in one transaction, which even a pooler gives to one server process."""
        async with self.raw.transaction():
            pid, now_ms = await self.raw.fetchrow(_LOOK)
        return Facts(pid != self.pid, now_ms)

    @property
    def closed(self) -> bool:
        return bool(self.raw.is_closed())

    async def rows(self, text: str, *values: object) -> list[Row]:
        rows: list[Row] = await self.raw.fetch(self._named(text), *values)
        return rows

    async def value(self, text: str, *values: object) -> Any:
        return await self.raw.fetchval(self._named(text), *values)

    async def run(self, text: str, *values: object) -> int:
        """Run a statement. Returns the number of rows it changed."""
        status: str = await self.raw.execute(self._named(text), *values)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def script(self, text: str) -> None:
        """Several statements in one message."""
        await self.raw.execute(self._named(text))

    async def close(self) -> None:
        await self.raw.close(timeout=2.0)

    def drop(self) -> None:
        self.raw.terminate()

    def _named(self, text: str) -> str:
        named = self._texts.get(text)
        if named is None:
            named = self._texts[text] = in_schema(text, self._schema)
        return named

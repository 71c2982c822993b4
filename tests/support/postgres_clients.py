"""Connections to PostgreSQL of every supported kind."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import psycopg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from holdfast import Outbox
from postgres import Server


class Psycopg:
    """One kind of connection, spoken to with `await` whether it blocks or not."""

    blocks = True

    async def open(self, server: Server) -> None:
        self.handle = self.raw = psycopg.connect(f"host={server.folder} user=postgres dbname=postgres")

    async def execute(self, sql: str) -> None:
        self.raw.execute(sql)

    async def commit(self) -> None:
        self.raw.commit()

    async def rollback(self) -> None:
        self.raw.rollback()

    async def close(self) -> None:
        self.raw.close()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            await self.rollback()
            raise
        await self.commit()

    async def publish(self, outbox: Outbox, *arguments: Any, **fields: Any) -> Any:
        if self.blocks:
            return outbox.publish(self.handle, *arguments, **fields)
        return await outbox.publish_async(self.handle, *arguments, **fields)

    async def publish_many(self, outbox: Outbox, events: list[dict[str, Any]]) -> Any:
        if self.blocks:
            return outbox.publish_many(self.handle, events)
        return await outbox.publish_many_async(self.handle, events)

    async def once(self, outbox: Outbox, event_id: str, error: Exception | None = None) -> bool:
        if self.blocks:
            with outbox.once(self.handle, event_id, consumer="billing") as first:
                return _or_raise(first, error)
        async with outbox.once(self.handle, event_id, consumer="billing") as first:
            return _or_raise(first, error)


def _or_raise(first: bool, error: Exception | None) -> bool:
    if error is not None:
        raise error
    return first


class PsycopgDictRows(Psycopg):
    async def open(self, server: Server) -> None:
        await super().open(server)
        self.raw.row_factory = psycopg.rows.dict_row


class PsycopgCursor(Psycopg):
    async def open(self, server: Server) -> None:
        await super().open(server)
        self.handle = self.raw.cursor()


class PsycopgRawCursors(Psycopg):
    """Its cursors write parameters as $1."""

    async def open(self, server: Server) -> None:
        await super().open(server)
        self.raw.cursor_factory = psycopg.RawCursor


class PsycopgPipeline(Psycopg):
    """In pipeline mode a statement has no answer until one asks for it."""

    async def open(self, server: Server) -> None:
        await super().open(server)
        self.pipeline = self.raw.pipeline()
        self.pipeline.__enter__()

    async def close(self) -> None:
        if not self.raw.closed:
            self.raw.rollback()
            self.pipeline.__exit__(None, None, None)
        await super().close()


class AlchemyConnection(Psycopg):
    async def open(self, server: Server) -> None:
        self.engine = sa.create_engine(f"postgresql+psycopg://postgres@/postgres?host={server.folder}")
        self.handle = self.raw = self.made()

    def made(self) -> Any:
        return self.engine.connect()

    async def execute(self, sql: str) -> None:
        self.raw.execute(sa.text(sql))

    async def close(self) -> None:
        self.raw.close()
        self.engine.dispose()


class AlchemySession(AlchemyConnection):
    def made(self) -> Any:
        return Session(self.engine)


class PsycopgAsync(Psycopg):
    blocks = False

    async def open(self, server: Server) -> None:
        dsn = f"host={server.folder} user=postgres dbname=postgres"
        self.handle = self.raw = await psycopg.AsyncConnection.connect(dsn)

    async def execute(self, sql: str) -> None:
        await self.raw.execute(sql)

    async def commit(self) -> None:
        await self.raw.commit()

    async def rollback(self) -> None:
        await self.raw.rollback()

    async def close(self) -> None:
        await self.raw.close()


class PsycopgAsyncRawPipeline(PsycopgAsync):
    async def open(self, server: Server) -> None:
        await super().open(server)
        self.raw.cursor_factory = psycopg.AsyncRawCursor
        self.pipeline = self.raw.pipeline()
        await self.pipeline.__aenter__()

    async def close(self) -> None:
        if not self.raw.closed:
            await self.raw.rollback()
            await self.pipeline.__aexit__(None, None, None)
        await super().close()


class Asyncpg(PsycopgAsync):
    async def open(self, server: Server) -> None:
        self.handle = self.raw = await server.connect()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        async with self.handle.transaction():
            yield

    async def execute(self, sql: str) -> None:
        await self.handle.execute(sql)


class AsyncpgPool(Asyncpg):
    async def open(self, server: Server) -> None:
        dsn = f"postgresql://postgres@/postgres?host={server.folder}"
        self.pool = await asyncpg.create_pool(dsn, min_size=1, max_size=2)
        self.handle = await self.pool.acquire()

    async def close(self) -> None:
        self.pool.terminate()


class AsyncpgRecords(Asyncpg):
    """The application's own rows, which are like their keys."""

    async def open(self, server: Server) -> None:
        self.handle = self.raw = await asyncpg.connect(server.address, record_class=Keys, statement_cache_size=0)


class Keys(asyncpg.Record):
    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


class AlchemyAsyncpg(PsycopgAsync):
    driver = "asyncpg"

    async def open(self, server: Server) -> None:
        self.engine = create_async_engine(f"postgresql+{self.driver}://postgres@/postgres?host={server.folder}")
        self.handle = self.raw = await self.made()

    async def made(self) -> Any:
        return await self.engine.connect()

    async def execute(self, sql: str) -> None:
        await self.raw.execute(sa.text(sql))

    async def close(self) -> None:
        await self.raw.close()
        await self.engine.dispose()


class AlchemyAsyncSession(AlchemyAsyncpg):
    async def made(self) -> Any:
        return AsyncSession(self.engine)


class AlchemyPsycopgAsync(AlchemyAsyncpg):
    driver = "psycopg"


KINDS = [
    Psycopg, PsycopgDictRows, PsycopgCursor, PsycopgRawCursors, PsycopgPipeline, AlchemyConnection, AlchemySession,
    PsycopgAsync, PsycopgAsyncRawPipeline, Asyncpg, AsyncpgPool, AsyncpgRecords,
    AlchemyAsyncpg, AlchemyAsyncSession, AlchemyPsycopgAsync,
]  # fmt: skip


class StoredRows:
    """What another session sees."""

    def __init__(self, server: Server, schema: str) -> None:
        self._server, self.schema = server, schema

    def rows(self, query: str) -> list[str]:
        done = self._server.psql(query.format(schema=self.schema))
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def events(self) -> list[str]:
        return self.rows("SELECT type || '|' || coalesce(stream, '') || '|' || seq FROM {schema}.events ORDER BY n;")

    def orders(self) -> int:
        return int(self.rows("SELECT count(*) FROM {schema}.orders;")[0])

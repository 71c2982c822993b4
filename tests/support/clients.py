"""Every kind of connection an application may use, with one interface, for one table of drivers and situations.

Clients share nothing, so that each can run in its own process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiosqlite
import apsw
import asyncpg
import psycopg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from holdfast import Outbox

Folder = Path
"""Where the database is: the folder of a server's socket, or of a file `app.db`."""


class Client:
    """Always awaited, also for blocking drivers. `handle` is the object passed to `publish`."""

    blocks = True
    begins: str | None = None
    """What begins a transaction where the driver does not do it by itself."""
    raw: Any
    handle: Any

    async def open(self, folder: Folder) -> None:
        raise NotImplementedError

    async def begin(self) -> None:
        if self.begins is not None:
            await self.execute(self.begins)

    async def execute(self, sql: str) -> None:
        await self._done(self.raw.execute(self._text(sql)))

    async def commit(self) -> None:
        await self._end("commit")

    async def rollback(self) -> None:
        await self._end("rollback")

    async def close(self) -> None:
        await self._done(self.raw.close())

    async def publish(self, outbox: Outbox, *arguments: Any, **fields: Any) -> Any:
        if self.blocks:
            return outbox.publish(self.handle, *arguments, **fields)
        return await outbox.publish_async(self.handle, *arguments, **fields)

    async def call(self, function: Callable[..., Any], *arguments: Any, **fields: Any) -> Any:
        """Call a method that has an awaited form under the same name with `_async`."""
        if self.blocks:
            return function(*arguments, **fields)
        owner = function.__self__  # type: ignore[attr-defined]
        return await getattr(owner, f"{function.__name__}_async")(*arguments, **fields)

    async def _end(self, verb: str) -> None:
        if self.begins is not None:
            await self.execute(verb.upper())
        else:
            await self._done(getattr(self.raw, verb)())

    async def _done(self, answer: Any) -> None:
        if not self.blocks:
            await answer

    def _text(self, sql: str) -> Any:
        return sql


class Sqlite3(Client):
    async def open(self, folder: Folder) -> None:
        import sqlite3

        self.handle = self.raw = sqlite3.connect(folder / "app.db")


class Sqlite3Cursor(Sqlite3):
    async def open(self, folder: Folder) -> None:
        await super().open(folder)
        self.handle = self.raw.cursor()


class Apsw(Client):
    begins = "BEGIN"

    async def open(self, folder: Folder) -> None:
        self.handle = self.raw = apsw.Connection(str(folder / "app.db"))
        self.raw.set_busy_timeout(5000)


class ApswCursor(Apsw):
    async def open(self, folder: Folder) -> None:
        await super().open(folder)
        self.handle = self.raw.cursor()


class Aiosqlite(Client):
    blocks = False

    async def open(self, folder: Folder) -> None:
        self.handle = self.raw = await aiosqlite.connect(folder / "app.db")


class Psycopg(Client):
    async def open(self, folder: Folder) -> None:
        self.handle = self.raw = psycopg.connect(_dsn(folder))


class PsycopgCursor(Psycopg):
    async def open(self, folder: Folder) -> None:
        await super().open(folder)
        self.handle = self.raw.cursor()


class PsycopgServerCursor(Psycopg):
    """A server-side cursor can run only one query, so its connection is used to publish."""

    async def open(self, folder: Folder) -> None:
        await super().open(folder)
        self.handle = self.raw.cursor(name="portions")


class PsycopgAsync(Client):
    blocks = False

    async def open(self, folder: Folder) -> None:
        self.handle = self.raw = await psycopg.AsyncConnection.connect(_dsn(folder))


class PsycopgAsyncCursor(PsycopgAsync):
    async def open(self, folder: Folder) -> None:
        await super().open(folder)
        self.handle = self.raw.cursor()


class Asyncpg(Client):
    blocks, begins = False, "BEGIN"

    async def open(self, folder: Folder) -> None:
        self.handle = self.raw = await asyncpg.connect(_url(folder))


class AsyncpgPool(Asyncpg):
    async def open(self, folder: Folder) -> None:
        self.pool = await asyncpg.create_pool(_url(folder), min_size=1, max_size=2)
        self.handle = self.raw = await self.pool.acquire()

    async def close(self) -> None:
        self.pool.terminate()


class Alchemy(Client):
    scheme = "postgresql+psycopg"

    async def open(self, folder: Folder) -> None:
        self.engine = self._engine(folder)
        self.handle = self.raw = await self._made()

    def _engine(self, folder: Folder) -> Any:
        return sa.create_engine(_url(folder, self.scheme))

    async def _made(self) -> Any:
        return self.engine.connect()

    def _text(self, sql: str) -> Any:
        return sa.text(sql)

    async def close(self) -> None:
        await super().close()
        await self._done(self.engine.dispose())


class AlchemySession(Alchemy):
    async def _made(self) -> Any:
        return Session(self.engine)


class AlchemyScoped(Alchemy):
    async def _made(self) -> Any:
        return scoped_session(sessionmaker(self.engine))


class AlchemyAsync(Alchemy):
    blocks, scheme = False, "postgresql+asyncpg"

    def _engine(self, folder: Folder) -> Any:
        return create_async_engine(_url(folder, self.scheme))

    async def _made(self) -> Any:
        return await self.engine.connect()


class AlchemyAsyncSession(AlchemyAsync):
    async def _made(self) -> Any:
        return AsyncSession(self.engine)


class AlchemyAsyncScoped(AlchemyAsync):
    async def _made(self) -> Any:
        return async_scoped_session(async_sessionmaker(self.engine), scopefunc=lambda: 1)


class AlchemyAsyncPsycopg(AlchemyAsyncSession):
    scheme = "postgresql+psycopg"


class SqliteAlchemy(Alchemy):
    scheme = "sqlite"


class SqliteAlchemySession(AlchemySession):
    scheme = "sqlite"


class SqliteAlchemyScoped(AlchemyScoped):
    scheme = "sqlite"


class SqliteAlchemyAsync(AlchemyAsync):
    scheme = "sqlite+aiosqlite"


class SqliteAlchemyAsyncSession(AlchemyAsyncSession):
    scheme = "sqlite+aiosqlite"


class SqliteAlchemyAsyncScoped(AlchemyAsyncScoped):
    scheme = "sqlite+aiosqlite"


class Django(Client):
    """A process can have one Django project, so this one is configured in the client's own process."""

    engine = "postgresql"

    async def open(self, folder: Folder) -> None:
        import os

        import django
        from django.conf import settings
        from django.db import connection, connections, transaction

        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
        settings.configure(DATABASES={"default": self._database(folder)}, INSTALLED_APPS=["holdfast.django"])
        django.setup()
        self.handle = connection
        self.raw = connections["default"]
        self.raw.connect()
        self._atomic = transaction.atomic()

    def _database(self, folder: Folder) -> dict[str, str]:
        return {
            "ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": str(folder)
        }  # fmt: skip

    async def begin(self) -> None:
        self._atomic.__enter__()

    async def execute(self, sql: str) -> None:
        with self.raw.cursor() as cursor:
            cursor.execute(sql)

    async def commit(self) -> None:
        self._atomic.__exit__(None, None, None)

    async def rollback(self) -> None:
        self._atomic.__exit__(ValueError, ValueError("undo"), None)


class DjangoCursor(Django):
    async def open(self, folder: Folder) -> None:
        await super().open(folder)
        self.handle = self.raw.cursor()


class SqliteDjango(Django):
    def _database(self, folder: Folder) -> dict[str, str]:
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "app.db")}


POSTGRES: list[type[Client]] = [
    Psycopg, PsycopgCursor, PsycopgServerCursor, PsycopgAsync, PsycopgAsyncCursor, Asyncpg, AsyncpgPool,
    Alchemy, AlchemySession, AlchemyScoped, AlchemyAsync, AlchemyAsyncSession, AlchemyAsyncScoped, AlchemyAsyncPsycopg,
    Django, DjangoCursor,
]  # fmt: skip
SQLITE: list[type[Client]] = [
    Sqlite3, Sqlite3Cursor, Apsw, ApswCursor, Aiosqlite, SqliteAlchemy, SqliteAlchemySession, SqliteAlchemyScoped,
    SqliteAlchemyAsync, SqliteAlchemyAsyncSession, SqliteAlchemyAsyncScoped, SqliteDjango,
]  # fmt: skip


def _dsn(folder: Folder) -> str:
    return f"host={folder} user=postgres dbname=postgres"


def _url(folder: Folder, scheme: str = "postgresql") -> str:
    return f"{scheme}:///{folder}/app.db" if "sqlite" in scheme else f"{scheme}://postgres@/postgres?host={folder}"

"""Open the store that a URL names. No other module of the package imports concrete stores."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.domain.errors import BadConfig, StoreBusy
from holdfast.domain.event import iso_time
from holdfast.domain.extras import install_command
from holdfast.domain.store_url import is_postgres
from holdfast.home import masked_url
from holdfast.ports import SystemClock
from holdfast.store.roles.store import Store


def several_hosts(url: str) -> bool:
    """Whether a URL names several database servers, of which one accepts writes."""
    if not is_postgres(url):
        return False
    from holdfast.store.postgres.place import each_host, parse_place

    return len(each_host(parse_place(url).dsn)) > 1


def sqlite_path(url: str) -> Path:
    """
    >>> sqlite_path("sqlite:///app.db").name
    'app.db'
    """
    if is_postgres(url):
        raise BadConfig(
            "this works on the file of a SQLite store; for PostgreSQL use the server's own tools, see pg_dump"
        )
    scheme, found, rest = url.partition("://")
    if not found or scheme != "sqlite" or not rest.startswith("/") or rest == "/":
        named = (
            repr(masked_url(url)) if found else "the given value"
        )  # not shown: it may be a secret that was misplaced
        raise BadConfig(
            f"{named} is not a store: use sqlite:///relative/path.db, sqlite:////absolute/path.db or postgresql://…"
        )
    if ":memory:" in rest or rest.startswith("/file:"):
        raise BadConfig(f"{masked_url(url)!r} names no file: a store is a file of its own, such as sqlite:///app.db")
    if "?" in rest:
        raise BadConfig(f"{masked_url(url)!r}: the URL of a SQLite store takes no options; remove the part from ? on")
    return Path(os.path.abspath(os.path.expanduser(rest[1:])))


def open_store(
    url: str, *, low_water_bytes: int | None = None, ballast_bytes: int | None = None, **options: Any
) -> Store:
    """Open the store a URL names. `keep=True`: as its keeper; `driver="sqlite3"`: inside an application.

    `low_water_bytes` and `ballast_bytes` apply to SQLite only: a database server watches its own disk.
    """
    if is_postgres(url):
        _need_driver()
        from holdfast.store.postgres.store import PostgresStore

        return PostgresStore.open(url, **options)
    from holdfast.store.sqlite.disk import DiskSpace
    from holdfast.store.sqlite.store import SqliteStore

    if low_water_bytes is not None and ballast_bytes is not None:
        options["disk_space"] = DiskSpace(low_water_bytes, ballast_bytes)
    return SqliteStore.open(sqlite_path(url), **options)


class Library(NamedTuple):
    """A SQLite library. Without the WAL-reset fix, a commit can be lost while another connection checkpoints."""

    version: str
    has_wal_reset_fix: bool


def sqlite_libraries() -> tuple[Library, Library]:
    """The daemon's own library, and that of this Python, which applications use."""
    import sqlite3

    import apsw

    from holdfast.store.sqlite.maintenance import has_wal_reset_fix

    versions = (apsw.sqlite_lib_version(), sqlite3.sqlite_version)
    return Library(versions[0], has_wal_reset_fix(versions[0])), Library(versions[1], has_wal_reset_fix(versions[1]))


def migrate_store(url: str, *, own: bool, driver: str = "apsw") -> tuple[int, int]:
    """Bring a store's schema up to date: the version before and after."""
    if is_postgres(url):
        _need_driver()
        from holdfast.store.postgres import migrate
        from holdfast.store.postgres.store import prepare_database

        try:
            return _run(prepare_database(url)), migrate.version_known()
        except StoreBusy as error:  # unlike the daemon, a command does not retry
            raise StoreBusy(f"{error.message.partition('; Holdfast retries')[0]}; run this again later") from error
    from holdfast.store.sqlite.migrate import version_known
    from holdfast.store.sqlite.store import prepare_file

    return prepare_file(sqlite_path(url), driver, own=own, create=True), version_known()


def print_schema(own: bool, url: str | None = None) -> str:
    """The SQL that `migrate_store` would run on an empty database of that kind."""
    if url is not None and is_postgres(url):
        _need_driver()
        from holdfast.store.postgres import migrate
        from holdfast.store.postgres.place import parse_place

        return migrate.printed(parse_place(url).schema)
    from holdfast.store.sqlite.migrate import printed

    return printed(own)


def check_copy(source: str, target: str) -> None:
    """Whether a store can be copied in this direction, and the driver for it is installed."""
    if is_postgres(source) or not is_postgres(target):
        raise BadConfig(
            "a copy goes from sqlite:///PATH to postgresql://…; for other directions see pg_dump and backup"
        )
    sqlite_path(source)
    _need_driver()


@contextmanager
def keep_closed(url: str, what: str) -> Iterator[Path]:
    """Be the keeper of a store without opening it, to replace its file, which may be damaged."""
    from holdfast.store.sqlite.keeper import Keeper

    path = sqlite_path(url)
    keeper = Keeper(path, {"what": what, "since": iso_time(SystemClock().now_ms())})
    try:
        yield path
    finally:
        keeper.release()


def _need_driver() -> None:
    from importlib.util import find_spec

    if find_spec("asyncpg") is None:
        how = install_command("postgres")
        raise BadConfig(f"a PostgreSQL store needs the driver asyncpg; install it with: {how}")


def _run(work: Coroutine[object, object, int]) -> int:
    """Run a coroutine in a thread of its own, so that it also works where an event loop is running already."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()

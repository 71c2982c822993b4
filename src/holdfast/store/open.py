"""The one place that knows concrete stores: from a URL to a store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.domain.errors import BadConfig
from holdfast.domain.event import iso_time
from holdfast.ports import SystemClock
from holdfast.store.base import Store


def sqlite_path(url: str) -> Path:
    """
    >>> sqlite_path("sqlite:///app.db").name
    'app.db'
    """
    scheme, found, rest = url.partition("://")
    if not found or scheme != "sqlite" or not rest.startswith("/") or rest == "/":
        raise BadConfig(f"{url!r} is not a store: use sqlite:///relative/path.db or sqlite:////absolute/path.db")
    return Path(os.path.abspath(os.path.expanduser(rest[1:])))


def open_store(url: str, **options: Any) -> Store:
    """Open the store a URL names. `keep=True`: as its keeper; `driver="sqlite3"`: inside an application."""
    from holdfast.store.sqlite.store import SqliteStore

    return SqliteStore.open(sqlite_path(url), **options)


def migrate_store(url: str, *, own: bool, driver: str = "apsw") -> tuple[int, int]:
    """Bring a store's schema up to date: the version before and after."""
    from holdfast.store.sqlite.migrate import version_known
    from holdfast.store.sqlite.store import prepare_file

    return prepare_file(sqlite_path(url), driver, own=own, create=True), version_known()


def print_schema(own: bool) -> str:
    from holdfast.store.sqlite.migrate import printed

    return printed(own)


@contextmanager
def keep_closed(url: str, what: str) -> Iterator[Path]:
    """Be the keeper of a store without opening it: for whoever replaces its file, which may be damaged."""
    from holdfast.store.sqlite.keeper import Keeper

    path = sqlite_path(url)
    keeper = Keeper(path, {"what": what, "since": iso_time(SystemClock().now_ms())})
    try:
        yield path
    finally:
        keeper.release()

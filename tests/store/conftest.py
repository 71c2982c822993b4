"""Real files, both drivers, and a check of the file afterwards for unreachable rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("holdfast.testing.suite")

from holdfast.ports import Chance, Clock  # noqa: E402
from holdfast.proof.power_cuts.contents import stray_rows  # noqa: E402
from holdfast.store.sqlite.store import DRIVERS, SqliteStore, inline_executor  # noqa: E402
from holdfast.testing.suite.harness import OpenStore  # noqa: E402
from store_shell import Shell, the_shell  # noqa: E402


@pytest.fixture(params=["apsw", "sqlite3"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shell() -> Shell:
    return the_shell()


@pytest.fixture
def open_store(tmp_path: Path, driver: str) -> Iterator[OpenStore]:
    """SQLite as the suite wants it: no threads, so that a test decides every interleaving."""
    names: set[str] = set()

    async def open_store(name: str, clock: Clock, chance: Chance, keep: bool) -> SqliteStore:
        names.add(name)
        return SqliteStore.open(
            tmp_path / f"{name}.db", driver=driver, keep=keep, clock=clock, chance=chance, executor=inline_executor
        )

    yield open_store
    for name in sorted(names):
        connection = DRIVERS[driver](tmp_path / f"{name}.db")
        try:
            assert stray_rows(connection) == {}
        finally:
            connection.close()

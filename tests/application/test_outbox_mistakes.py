"""Mistakes with `Outbox` and `@outbox.on`: each fails at once, with the right form in its message."""

from __future__ import annotations

import sqlite3
import sys
import types
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast import BadInput, Outbox
from holdfast.domain.errors import BadConfig, StoreMissing
from holdfast.testing.outbox import RecordingOutbox

URLS = {
    "empty": ("", "is empty; use sqlite:///relative/path.db"),
    "blank": ("  ", "is empty"),
    "another database": ("mysql://app:secret@db/shop", "SQLite or PostgreSQL, not in 'mysql'"),
    "a driver": ("postgresql+psycopg://app:secret@db/shop", "write postgresql:// instead of postgresql+psycopg://"),
    "a path": ("secret.db", "is not the URL of a database"),
    "no file": ("sqlite:///", "names no file"),
    "two slashes": ("sqlite://secret.db", "a third slash"),
    "nothing": (None, "not a NoneType"),
}  # fmt: skip


@pytest.mark.parametrize(("url", "message"), URLS.values(), ids=URLS)
def test_a_url_that_is_no_store_fails_at_once(url: Any, message: str) -> None:
    with pytest.raises(BadConfig) as refused:
        Outbox(url)
    assert message in refused.value.message
    assert "secret" not in refused.value.message


def test_a_connection_to_another_kind_of_database_is_named(tmp_path: Path) -> None:
    outbox = Outbox("postgresql://db/shop")
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        for call in (
            lambda: outbox.publish(connection, "x"),
            lambda: outbox.stream("s").append(connection, "x"),
            lambda: outbox.get_cursor("r", "s", connection=connection),
        ):
            with pytest.raises(BadInput, match=r"got a connection to SQLite, but this outbox is in PostgreSQL: pass"):
                call()


def test_a_test_may_use_sqlite_instead_of_the_applications_server(holdfast_outbox: RecordingOutbox) -> None:
    with holdfast_outbox.connection() as connection:
        Outbox("postgresql://db/shop?schema=jobs").publish(connection, "order.placed")
    assert [event.type for event in holdfast_outbox.published()] == ["order.placed"]


def test_missing_tables_are_reported_with_the_command_that_creates_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("shop_of_this_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec("import holdfast\nevents = holdfast.Outbox('sqlite:///app.db')", vars(module))
    local = Outbox("sqlite:///app.db")
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:

        def message(outbox: Outbox) -> str:
            with pytest.raises(StoreMissing) as missing:
                outbox.publish(connection, "x")
            return missing.value.message

        assert "run: holdfast db migrate --app shop_of_this_test:events (or call" in message(module.events)
        assert "run: holdfast db migrate --store sqlite:///app.db (or call" in message(local)
        (tmp_path / "alembic.ini").touch()
        assert "holdfast.alembic.upgrade(op) and run: alembic upgrade head" in message(local)


def test_a_decorator_without_parentheses_raises_with_the_right_form() -> None:
    with pytest.raises(BadInput, match=r'write @outbox\.on\("order\.\*"\)'):

        @Outbox("sqlite:///app.db").on  # type: ignore[arg-type]
        def ship(event: object) -> None: ...

"""What people pass by mistake: one sentence each, and nothing is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import pytest
import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from holdfast import BadInput, DedupConflict, Outbox, StoreError
from holdfast.store.faults import translated
from postgres import newest, start

ENGINE = sa.create_engine("sqlite://")
MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: ENGINE, r"a sqlalchemy\.engine\.base\.Engine runs no transaction; pass publish\(\) the Connection that"),
    (lambda: sessionmaker(ENGINE), r"sessionmaker runs no transaction; pass publish\(\) a Session of it"),
    (
        lambda: create_async_engine("sqlite+aiosqlite://"),
        r"AsyncEngine runs no transaction; pass publish\(\) the Async",
    ),
    (lambda: async_sessionmaker(), r"async_sessionmaker runs no transaction; pass publish\(\) an AsyncSession of it"),
    (lambda: None, r"publish\(\) takes the connection your transaction runs on; builtins\.NoneType is not one"),
    (lambda: "app.db", r"builtins\.str is not one it knows: pass one of apsw\.Connection, "),
]


@pytest.mark.parametrize(("made", "message"), MISTAKES)
def test_an_object_without_a_transaction_is_refused_with_advice(made: Callable[[], Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Outbox("sqlite:///nowhere.db").publish(made(), "x")


def test_a_model_that_is_no_payload_yet_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="payload is not a JSON value"):
        Outbox("sqlite:///nowhere.db").publish(None, "x", BaseModel)


def test_the_server_message_is_read_from_a_wrapped_error() -> None:
    """As pg8000 does below SQLAlchemy."""
    error = {"S": "ERROR", "C": "HF001", "M": "holdfast: type is missing"}
    assert str(translated(RuntimeError(error))) == "type is missing"
    assert isinstance(translated(RuntimeError({**error, "C": "HF002"})), DedupConflict)
    assert translated(RuntimeError({"C": "40P01", "M": "deadlock detected"})) is None


async def test_a_pool_is_refused_with_advice_to_pass_a_connection() -> None:
    server = start(newest())
    async with asyncpg.create_pool(f"postgresql://postgres@/postgres?host={server.folder}", min_size=1) as pool:
        with pytest.raises(BadInput, match=r"Pool runs no transaction; pass publish_async\(\) the connection that"):
            await Outbox(server.url("x")).publish_async(pool, "x")


async def test_a_cursor_that_does_not_know_its_connection_is_named(tmp_path: Path) -> None:
    async with aiosqlite.connect(tmp_path / "app.db") as connection, connection.cursor() as cursor:
        with pytest.raises(BadInput, match=r"aiosqlite\.cursor\.Cursor runs no transaction; pass publish_async\(\)"):
            await Outbox(f"sqlite:///{tmp_path}/app.db").publish_async(cursor, "x")


def test_a_closed_connection_is_named(tmp_path: Path) -> None:
    outbox = Outbox(f"sqlite:///{tmp_path}/app.db")
    outbox.migrate()
    connection = sqlite3.connect(tmp_path / "app.db")
    connection.close()
    with pytest.raises(StoreError, match="closed database"):
        outbox.publish(connection, "x")


def test_a_missing_folder_of_a_database_is_named_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"the folder {tmp_path}/missing does not exist; create it"):
        Outbox(f"sqlite:///{tmp_path}/missing/app.db").migrate()

"""The pages on publishing and on applications: every Python block runs, in its order, as it stands."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from holdfast.testing.outbox import RecordingOutbox
from postgres import newest, start

DOCS = Path(__file__).parents[2] / "docs"
APART = {"Django"}  # needs a project around it: test_django.py


def sections(page: str) -> list[tuple[str, list[str]]]:
    text = (DOCS / page).read_text("utf-8")
    parts = re.split(r"^##+ (.+)$", text, flags=re.MULTILINE)
    titles = ["", *parts[1::2]]
    return [
        (title, re.findall(r"^```python\n(.*?)^```", body, re.DOTALL | re.MULTILINE))
        for title, body in zip(titles, parts[::2], strict=True)
    ]


@pytest.fixture
def database() -> Iterator[str]:
    server, name = start(newest()), f"pages_{os.getpid()}"
    assert server.psql(f"CREATE DATABASE {name};").returncode == 0
    yield f"postgresql://postgres@/{name}?host={server.folder}"
    server.psql(f"DROP DATABASE {name} WITH (FORCE);")


async def run(block: str, names: dict[str, Any]) -> None:
    code: CodeType = compile(block, "<page>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(code, names)
    if inspect.iscoroutine(made):
        await made


async def test_every_way_to_publish_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    monkeypatch.chdir(tmp_path)
    (_, (opening,)), *rest = sections("applications/publish.md")
    first: dict[str, Any] = {}
    await run(opening, first)
    for title, blocks in rest:
        if title in APART:
            continue
        with contextlib.closing(sqlite3.connect("shop.db")) as connection:
            names = dict(first, connection=connection)
            for block in blocks:
                await run(block.replace("postgresql://localhost/shop", database), names)
        if title in ("sqlite3", "apsw"):
            names["connection"].close()
    with contextlib.closing(sqlite3.connect("shop.db")) as look:
        types = [row[0] for row in look.execute("SELECT type FROM holdfast_events ORDER BY n")]
    assert types == [
        "order.placed", "order.placed", "order.placed", "order.placed", "order.paid", "order.placed",
        "order.priced", "order.paid", "stock.taken", "order.sent",
    ]  # fmt: skip


async def test_the_page_on_applications_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holdfast_outbox: RecordingOutbox
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "shop"}
    tests = []
    for title, blocks in sections("applications/handlers.md"):
        for block in blocks:
            await run(block, names)
        if title == "Tests":
            tests = [value for name, value in names.items() if name.startswith("test_")]
    assert set(names["outbox"].handlers) == {"log", "ship"}
    names["connection"].close()
    (test,) = tests
    await asyncio.to_thread(test, holdfast_outbox)  # as pytest would run it: without a loop

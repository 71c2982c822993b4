"""Deliveries of an event are found however many came after them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.store.postgres import operator as postgres_operator
from holdfast.store.roles.operator import DeliveryFilter
from holdfast.store.sqlite import operator as sqlite_operator
from holdfast.store.sqlite.store import SqliteStore, inline_executor, prepare_file
from holdfast.testing.suite.harness import Harness
from postgres import Server, opened

pytest_plugins = ("postgres",)


@asynccontextmanager
async def on(store: Any) -> AsyncIterator[Harness]:
    harness = Harness.__new__(Harness)
    harness.store, harness.owner = store, await store.owners.register()
    yield harness


async def find_an_old_one(store: Any) -> None:
    async with on(store) as harness:
        await harness.contract("a", "handler:a")
        first = await harness.emit()
        for _ in range(30):
            await harness.emit()
        await harness.route()
        page = await store.operator.deliveries(DeliveryFilter(event=first.id), None, 10)
        assert [row.event_id for row in page.items] == [first.id]
        assert page.next is None
        page = await store.operator.deliveries(DeliveryFilter(event=first.id, contract="a"), None, 1)
        assert [row.event_id for row in page.items] == [first.id]


async def test_on_sqlite(tmp_path: Path, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_operator, "SCAN_MAX", 10)
    prepare_file(tmp_path / "h.db", driver, own=True, create=True)
    store = SqliteStore.open(tmp_path / "h.db", driver=driver, executor=inline_executor, keep=True)
    await find_an_old_one(store)
    await store.close()


async def test_on_postgres(server: Server, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_operator, "SCAN_MAX", 10)
    async with opened(server, schema) as store:
        await find_an_old_one(store)

"""Cursors that stand still expire with one system event per reader, and readers without a process end."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.domain.event import new_event
from holdfast.domain.reader import Reader
from holdfast.operations.duties.cursor_expiry import CursorExpiry
from holdfast.store.open import open_store
from holdfast.store.roles.store import Store
from holdfast.testing.clock import ManualClock, SeededChance

DAY_S, DAY_MS = 86_400.0, 86_400_000


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock):
    store = open_store(f"sqlite:///{tmp_path}/h.db", keep=True, clock=clock, chance=SeededChance(1))
    yield store
    await store.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_idle_cursors_expire_once_and_are_reported_by_reader(store: Store, clock: ManualClock) -> None:
    notified: list[tuple[str, list[str]]] = []

    async def notify(reader, cursors) -> None:
        notified.append((reader, sorted(cursor.stream for cursor in cursors)))

    await store.readers.register([Reader("gone", "run:*")])
    for stream in ("run:1", "run:2"):
        await store.events.append([new_event("t", stream=stream)])
        await store.cursors.ensure("gone", stream)
    expiry = CursorExpiry(store, clock, 30 * DAY_MS, 3600.0, notify)
    assert await expiry.tick() == 20.0  # not at the start
    clock.advance(29 * DAY_S)
    assert await expiry.tick() == 3600.0
    assert notified == []
    clock.advance(2 * DAY_S)
    for _ in range(2):
        await expiry.tick()
    assert notified == [("gone", ["run:1", "run:2"])]
    assert await store.readers.all() == []

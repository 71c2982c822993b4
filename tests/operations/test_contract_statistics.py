"""What a contract's statistics say: at once for this process, and after the counts were recorded for every process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.config import load_config
from holdfast.domain.delivery import Dead, Delivered, Outcome, Retry
from holdfast.domain.errors import NotFound
from holdfast.domain.states import Reason
from holdfast.net.guard import Guard
from holdfast.operations.context import OperationsContext
from holdfast.operations.duties.count_recorder import CountRecorder
from holdfast.operations.process_counts import ProcessCounts
from holdfast.operations.verbs import Operations
from holdfast.store.sqlite.store import SqliteStore, inline_executor, prepare_file
from holdfast.testing.suite.harness import Harness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    async def open_it(name: str, clock: Any, chance: Any, keep: bool) -> SqliteStore:
        path = tmp_path / f"{name}.db"
        prepare_file(path, "apsw", own=True, create=True)
        return SqliteStore.open(path, clock=clock, chance=chance, executor=inline_executor, keep=keep)

    harness = await Harness.start(open_it)
    yield harness
    await harness.close()


def verbs(harness: Harness, counts: ProcessCounts) -> Operations:
    config = load_config(None)
    return Operations(
        OperationsContext(
            harness.store, harness.owner, Guard(()), config.policies, config.retention, harness.clock, harness.chance,
            counts=counts,
        )
    )  # fmt: skip


async def deliver(harness: Harness, counts: ProcessCounts, outcome: Outcome) -> None:
    claim = await harness.take()
    settlement = harness.settlement(claim, outcome)
    await harness.store.deliveries.settle(harness.owner, [settlement])
    counts.settled([settlement], set(), harness.clock.now_ms())


async def test_what_was_delivered_failed_died_and_waits(harness: Harness) -> None:
    counts = ProcessCounts()
    await harness.contract("c")
    contracts = verbs(harness, counts).contracts
    for end in (Delivered(), Dead(Reason.REJECTED, "no"), Retry("503")):
        await harness.emit()
        await harness.route()
        harness.clock.advance(2)
        await deliver(harness, counts, end)
    found = await contracts.statistics("c")
    assert (found.pending, found.in_flight, found.dead) == (1, 0, 1)
    assert (found.total.delivered, found.total.dead, found.total.failed, found.total.dropped) == (1, 1, 2, 0)
    assert found.total.latency_seconds == 2.0
    assert found.last_day == found.total
    assert found.last_delivered_at is not None
    assert found.last_failed_at is not None
    assert found.last_failed_at > found.last_delivered_at
    assert len(found.hours) == 24
    assert (found.hours[-1].delivered, found.hours[-1].failed) == (1, 2)


async def test_what_is_recorded_is_seen_by_every_process_and_not_counted_twice(harness: Harness) -> None:
    counts = ProcessCounts()
    await harness.contract("c")
    await harness.send()
    await deliver(harness, counts, Delivered())
    other = verbs(harness, ProcessCounts()).contracts
    assert (await other.statistics("c")).total.delivered == 0
    recorder = CountRecorder(harness.store, counts, harness.clock)
    for _ in range(2):
        await recorder.tick()
        assert (await other.statistics("c")).total.delivered == 1
        assert (await verbs(harness, counts).contracts.statistics("c")).total.delivered == 1
    harness.clock.advance(25 * 3600)
    old = await other.statistics("c")
    assert (old.total.delivered, old.last_day.delivered) == (1, 0)
    assert old.last_delivered_at is not None


async def test_a_contract_that_did_nothing_has_zeros_and_an_unknown_one_is_an_error(harness: Harness) -> None:
    await harness.contract("c")
    contracts = verbs(harness, ProcessCounts()).contracts
    found = await contracts.statistics("c")
    assert (found.pending, found.dead, found.total.delivered, found.total.latency_seconds) == (0, 0, 0, None)
    assert found.last_delivered_at is found.last_failed_at is found.oldest_pending_seconds is None
    with pytest.raises(NotFound):
        await contracts.statistics("d")

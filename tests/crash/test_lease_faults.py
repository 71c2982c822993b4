"""Three known faults of lease engines. Holdfast does not have them; with the fault injected, the check detects it.

Each check returns what it found wrong, so the same function checks the real store and the faulty one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.domain.delivery import Dead, Delivered, Retry
from holdfast.domain.states import Reason
from holdfast.ports import Chance, Clock
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.store import SqliteStore, inline_executor
from holdfast.testing.suite.harness import Harness

LEASE_S = 30.0


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    async def open_store(name: str, clock: Clock, chance: Chance, keep: bool) -> SqliteStore:
        return SqliteStore.open(
            tmp_path / f"{name}.db", keep=keep, clock=clock, chance=chance, executor=inline_executor
        )  # fmt: skip

    harness = await Harness.start(open_store)
    yield harness
    await harness.close()


def inject(monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    """Replace these SQL statements of the store."""
    for name, text in texts.items():
        assert name in sql._texts, f"there is no statement {name} to make faulty"
        monkeypatch.setitem(sql._texts, name, text)


# A crash strands claimed deliveries ---------------------------------------------------------------------------


async def stranded_by_a_crash(harness: Harness) -> list[str]:
    """Claim in every way, crash and restart. Returns the deliveries that can no longer be claimed."""
    await harness.contract("plain", "handler:plain")
    await harness.contract("lane", "handler:lane", ordered=True)
    await harness.emit(stream="s")
    await harness.emit(stream="s")
    await harness.route()
    first = await harness.claim()
    await harness.settle(first[0], Retry("503"))
    harness.clock.advance(5)
    await harness.claim()
    held = {row.id for row in await harness.rows() if row.leased}
    assert len(held) == 3, "the scene is set wrong: every claimable delivery should be held"
    await harness.crash()
    found = {claim.delivery.id for claim in await harness.claim()}
    found |= {claim.delivery.id for claim in await harness.claim()}  # suspects are claimed one at a time
    return [f"delivery {id} was held when the process died, and is stranded" for id in sorted(held - found)]


async def test_s01_leases_of_a_dead_process_are_claimable_at_once(harness: Harness) -> None:
    assert await stranded_by_a_crash(harness) == []


async def test_s01_a_recovery_that_omits_the_claimed_state_strands_its_rows(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery looks only at pending rows, and claimed rows have a state of their own."""
    inject(
        monkeypatch,
        lease_reclaim="""
            UPDATE holdfast_ready SET owner = NULL, token = NULL, lease_until = NULL
            WHERE token IS NULL AND ?3 IS NOT NULL AND (lease_until < ?1 OR owner IN
              (SELECT id FROM holdfast_owners WHERE ended_at IS NOT NULL OR boot_id <> ?2))""",
    )
    assert len(await stranded_by_a_crash(harness)) == 3


# A lock that never expires ----------------------------------------------------------------------------------


async def held_for_ever(harness: Harness) -> list[str]:
    """Whether expiry frees the lease of a hung holder, and a restart that of a dead one."""
    faults = []
    await harness.contract()
    hung = await harness.send()
    await harness.take(lease_s=LEASE_S)
    harness.clock.advance(LEASE_S + 0.001)
    await harness.store.deliveries.reclaim()
    freed = await harness.claim(lease_s=LEASE_S)
    if [claim.delivery.id for claim in freed] != [hung]:
        faults.append("a lease past its end is still held")
    await harness.crash()
    if [claim.delivery.id for claim in await harness.claim()] != [hung]:
        faults.append("a new start did not free what the process before it held")
    return faults


async def test_s05_a_lease_ends_by_time_and_by_the_death_of_its_holder(harness: Harness) -> None:
    assert await held_for_ever(harness) == []


async def test_s05_a_lock_without_expiry_or_reset_is_held_for_ever(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims need an unlocked row, and nothing unlocks it: no expiry, and no reset at the start."""
    inject(monkeypatch, lease_reclaim="UPDATE holdfast_ready SET token = token WHERE coalesce(?1, ?2, ?3) IS NULL")
    assert len(await held_for_ever(harness)) == 2


async def test_s05_a_lock_without_expiry_is_detected_even_if_a_restart_resets_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    inject(
        monkeypatch,
        lease_reclaim="""
            UPDATE holdfast_ready SET owner = NULL, token = NULL, lease_until = NULL
            WHERE token IS NOT NULL AND ?1 IS NOT NULL AND ?3 IS NOT NULL AND owner IN
              (SELECT id FROM holdfast_owners WHERE ended_at IS NOT NULL OR boot_id <> ?2)""",
    )
    assert await held_for_ever(harness) == ["a lease past its end is still held"]


# A stale worker overwrites the new owner's result -----------------------------------------------------------


async def overwritten_by_a_stale_worker(harness: Harness) -> list[str]:
    """A worker sleeps past its lease, another takes over, and the first wakes and settles."""
    faults = []
    await harness.contract()
    id = await harness.send()
    stale = await harness.take(lease_s=LEASE_S)
    harness.clock.advance(LEASE_S + 0.001)
    await harness.store.deliveries.reclaim()
    holder = await harness.take(lease_s=LEASE_S)
    if await harness.settle(stale, Dead(Reason.REJECTED, "what the stale worker saw")):
        faults.append("the stale worker's settle was taken")
    row = await harness.row(id)
    if (row.state, row.attempts, row.leased) != ("pending", 0, True):
        faults.append(f"the stale worker made it {row.state}")
    if not await harness.settle(holder, Delivered()):
        faults.append("the holder's own settle was refused")
    if (await harness.row(id)).state != "delivered":
        faults.append(f"it was delivered, but the store has {row.state}")
    return faults


async def overdue_by_a_stale_worker(harness: Harness) -> list[str]:
    """The same with a stale worker that schedules a retry."""
    await harness.contract()
    id = await harness.send()
    stale = await harness.take(lease_s=LEASE_S)
    harness.clock.advance(LEASE_S + 0.001)
    await harness.store.deliveries.reclaim()
    await harness.take(lease_s=LEASE_S)
    await harness.settle(stale, Retry("what the stale worker saw"))
    harness.clock.advance(5)
    again = await harness.claim()
    return [f"delivery {id} has two holders at a time"] if again else []


async def test_s08_a_stale_worker_changes_nothing(harness: Harness) -> None:
    assert await overwritten_by_a_stale_worker(harness) == []


async def test_s08_a_stale_retry_changes_nothing(harness: Harness) -> None:
    assert await overdue_by_a_stale_worker(harness) == []


async def test_s08_a_settle_by_id_alone_lets_a_stale_worker_overwrite(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfenced = "DELETE FROM holdfast_ready WHERE ?1 IS NOT NULL AND delivery IN (SELECT value FROM json_each(?2))"
    inject(monkeypatch, ready_end=unfenced)
    faults = await overwritten_by_a_stale_worker(harness)
    assert "the stale worker's settle was taken" in faults
    assert "it was delivered, but the store has dead" in faults


async def test_s08_a_retry_by_id_alone_gives_a_delivery_two_holders(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    inject(
        monkeypatch,
        ready_again="""
            UPDATE holdfast_ready SET owner = NULL, token = NULL, lease_until = NULL, starts = 0, due_at = ?1
            WHERE delivery = ?2 AND ?3 IS NOT NULL""",
    )
    assert await overdue_by_a_stale_worker(harness) == ["delivery 1 has two holders at a time"]

"""Three faults that lease engines are known for. Ours keeps the promise; with the fault put in, the check sees it.

Each check returns what it found wrong, so that the same function judges the real store and the faulty one.
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
from holdfast.testing.suite.harness import Bench

LEASE_S = 30.0


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async def open_store(name: str, clock: Clock, chance: Chance, keep: bool) -> SqliteStore:
        return SqliteStore.open(
            tmp_path / f"{name}.db", keep=keep, clock=clock, chance=chance, executor=inline_executor
        )  # fmt: skip

    bench = await Bench.start(open_store)
    yield bench
    await bench.close()


def put_in(monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    """Make the store run other SQL under these names."""
    for name, text in texts.items():
        assert name in sql._texts, f"there is no statement {name} to make faulty"
        monkeypatch.setitem(sql._texts, name, text)


# A crash strands what was claimed ---------------------------------------------------------------------------


async def stranded_by_a_crash(bench: Bench) -> list[str]:
    """Claim in every way there is, die, come back: what can nobody claim any more?"""
    await bench.contract("plain", "handler:plain")
    await bench.contract("lane", "handler:lane", ordered=True)
    await bench.emit(stream="s")
    await bench.emit(stream="s")
    await bench.route()
    first = await bench.claim()
    await bench.settle(first[0], Retry("503"))
    bench.clock.advance(5)
    await bench.claim()
    held = {row.id for row in await bench.rows() if row.leased}
    assert len(held) == 3, "the scene is set wrong: every claimable delivery should be held"
    await bench.crash()
    found = {claim.delivery.id for claim in await bench.claim()}
    found |= {claim.delivery.id for claim in await bench.claim()}  # those under suspicion come one at a time
    return [f"delivery {id} was held when the process died, and is stranded" for id in sorted(held - found)]


async def test_s01_what_a_dead_process_held_is_claimable_at_once(bench: Bench) -> None:
    assert await stranded_by_a_crash(bench) == []


async def test_s01_a_recovery_that_omits_the_claimed_state_strands_its_rows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery looks at what waits, but what was claimed is in a state of its own."""
    put_in(
        monkeypatch,
        lease_reclaim="""
            UPDATE holdfast_ready SET owner = NULL, token = NULL, lease_until = NULL
            WHERE token IS NULL AND ?3 IS NOT NULL AND (lease_until < ?1 OR owner IN
              (SELECT id FROM holdfast_owners WHERE ended_at IS NOT NULL OR boot_id <> ?2))""",
    )
    assert len(await stranded_by_a_crash(bench)) == 3


# A lock that never expires ----------------------------------------------------------------------------------


async def held_for_ever(bench: Bench) -> list[str]:
    """A holder that hangs, and one that died: does time, or a new start, free what they held?"""
    faults = []
    await bench.contract()
    hung = await bench.send()
    await bench.take(lease_s=LEASE_S)
    bench.clock.advance(LEASE_S + 0.001)
    await bench.store.deliveries.reclaim()
    freed = await bench.claim(lease_s=LEASE_S)
    if [claim.delivery.id for claim in freed] != [hung]:
        faults.append("a lease past its end is still held")
    await bench.crash()
    if [claim.delivery.id for claim in await bench.claim()] != [hung]:
        faults.append("a new start did not free what the process before it held")
    return faults


async def test_s05_a_lease_ends_by_time_and_by_the_death_of_its_holder(bench: Bench) -> None:
    assert await held_for_ever(bench) == []


async def test_s05_a_lock_without_expiry_or_reset_is_held_for_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims want the row unlocked; nothing unlocks it: no expiry, and no reset at the start."""
    put_in(monkeypatch, lease_reclaim="UPDATE holdfast_ready SET token = token WHERE coalesce(?1, ?2, ?3) IS NULL")
    assert len(await held_for_ever(bench)) == 2


async def test_s05_a_lock_without_expiry_is_noticed_even_if_a_new_start_resets_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in(
        monkeypatch,
        lease_reclaim="""
            UPDATE holdfast_ready SET owner = NULL, token = NULL, lease_until = NULL
            WHERE token IS NOT NULL AND ?1 IS NOT NULL AND ?3 IS NOT NULL AND owner IN
              (SELECT id FROM holdfast_owners WHERE ended_at IS NOT NULL OR boot_id <> ?2)""",
    )
    assert await held_for_ever(bench) == ["a lease past its end is still held"]


# A stale worker overwrites the new owner's result -----------------------------------------------------------


async def overwritten_by_a_stale_worker(bench: Bench) -> list[str]:
    """A worker sleeps past its lease; another takes over; the first wakes and settles. Whose word counts?"""
    faults = []
    await bench.contract()
    id = await bench.send()
    stale = await bench.take(lease_s=LEASE_S)
    bench.clock.advance(LEASE_S + 0.001)
    await bench.store.deliveries.reclaim()
    holder = await bench.take(lease_s=LEASE_S)
    if await bench.settle(stale, Dead(Reason.REJECTED, "what the stale worker saw")):
        faults.append("the stale worker's settle was taken")
    row = await bench.row(id)
    if (row.state, row.attempts, row.leased) != ("pending", 0, True):
        faults.append(f"the stale worker made it {row.state}")
    if not await bench.settle(holder, Delivered()):
        faults.append("the holder's own settle was refused")
    if (await bench.row(id)).state != "delivered":
        faults.append(f"it was delivered, and the store says {row.state}")
    return faults


async def overdue_by_a_stale_worker(bench: Bench) -> list[str]:
    """The same, with a stale worker that wants to try again: does it take the row out of the holder's hands?"""
    await bench.contract()
    id = await bench.send()
    stale = await bench.take(lease_s=LEASE_S)
    bench.clock.advance(LEASE_S + 0.001)
    await bench.store.deliveries.reclaim()
    await bench.take(lease_s=LEASE_S)
    await bench.settle(stale, Retry("what the stale worker saw"))
    bench.clock.advance(5)
    again = await bench.claim()
    return [f"delivery {id} has two holders at a time"] if again else []


async def test_s08_a_stale_worker_changes_nothing(bench: Bench) -> None:
    assert await overwritten_by_a_stale_worker(bench) == []


async def test_s08_a_stale_retry_changes_nothing(bench: Bench) -> None:
    assert await overdue_by_a_stale_worker(bench) == []


async def test_s08_a_settle_by_id_alone_lets_a_stale_worker_overwrite(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfenced = "DELETE FROM holdfast_ready WHERE ?1 IS NOT NULL AND delivery IN (SELECT value FROM json_each(?2))"
    put_in(monkeypatch, ready_end=unfenced)
    faults = await overwritten_by_a_stale_worker(bench)
    assert "the stale worker's settle was taken" in faults
    assert "it was delivered, and the store says dead" in faults


async def test_s08_a_retry_by_id_alone_gives_a_delivery_two_holders(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in(
        monkeypatch,
        ready_again="""
            UPDATE holdfast_ready SET owner = NULL, token = NULL, lease_until = NULL, starts = 0, due_at = ?1
            WHERE delivery = ?2 AND ?3 IS NOT NULL""",
    )
    assert await overdue_by_a_stale_worker(bench) == ["delivery 1 has two holders at a time"]

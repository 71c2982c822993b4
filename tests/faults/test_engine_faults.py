"""Known faults of delivery engines, by number: each test shows that Holdfast does not have the fault.

| fault | what goes wrong | tested in |
|---|---|---|
| S1 | a crash strands claimed deliveries | `tests/crash/test_lease_faults.py` |
| S2 | nothing wakes a worker for a retry that is due later | here |
| S3 | a head in back-off is overtaken | here |
| S4 | a poison head blocks its lane for ever | here |
| S5 | a lock without expiry is held for ever | `tests/crash/test_lease_faults.py` |
| S6 | a redirect counts as delivered | here |
| S7 | every 4xx is final, also those that mean "later" | here |
| S8 | a stale worker overwrites the holder's result | `tests/crash/test_lease_faults.py` |
| S9 | order by wall clock | here |
| S10 | an undeliverable event is "delivered with error" | here |
| S11 | a failure after the response loses the event | here |
| S12 | handlers in flight are lost at a restart | here |
| S13 | bursts are coalesced in silence | `src/holdfast/testing/suite/bursts.py`, where the survivor is named |
| S14 | a slow handler runs twice, as its lease is not renewed | here |
| S15 | the first fifty streams starve all later ones | here |
| S16 | overlapping passes publish twice | here |
| S17 | a cursor skips events that commit later | here; PostgreSQL: `tests/store/test_postgres_concurrency.py` |
| S18 | secrets are copied into every row | here |
| S19 | a receipt chain does not notice a cut tail | here, against a head kept elsewhere |
| S20 | row numbers are reused | here |
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from engine_harness import EngineHarness
from holdfast.daemon.loop import Loop
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.delivery import Claim, Dead, Delivered, Retry
from holdfast.domain.event import new_event
from holdfast.domain.states import Reason
from holdfast.egress.webhook.exchange import judge
from holdfast.ledger.verifier import verify_receipts
from holdfast.testing.clock import SeededChance


@pytest.fixture
async def harness(tmp_path: Path) -> EngineHarness:
    return await EngineHarness(tmp_path).start()


async def test_s02_a_retry_that_is_due_later_needs_no_new_message_to_wake_it(harness: EngineHarness) -> None:
    await harness.contract()
    harness.script.answer = lambda claim: Retry("503", after_s=30) if len(harness.script.seen) < 3 else Delivered()
    await harness.stream(1)
    await harness.drain()
    for _ in range(2):
        delay = await harness.step()
        assert delay is not None, "it would sleep until the next wake-up"
        assert 0 < delay <= 60
        harness.clock.advance(60)
        await harness.drain()
    assert await harness.states() == ["delivered"]


async def test_s03_a_head_in_back_off_is_not_overtaken(harness: EngineHarness) -> None:
    await harness.contract(ordered=True)
    harness.script.answer = lambda claim: Retry("503", after_s=30) if len(harness.script.seen) == 1 else Delivered()
    await harness.stream(3)
    await harness.drain()
    assert harness.script.seqs == [1], "a later message went before the one that waits"
    harness.clock.advance(60)
    await harness.drain()
    assert harness.script.seqs == [1, 1, 2, 3]


async def test_s04_a_poison_head_ends_and_its_lane_continues(harness: EngineHarness) -> None:
    await harness.contract(ordered=True, attempts=3)
    harness.script.answer = lambda claim: Retry("poison", after_s=1) if claim.event.seq == 1 else Delivered()
    await harness.stream(2)
    for _ in range(5):
        await harness.drain()
        harness.clock.advance(120)
    assert [(row.state, row.reason) for row in await harness.rows()] == [("dead", "exhausted"), ("delivered", None)]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_s06_a_redirect_is_not_a_delivery(status: int) -> None:
    assert not isinstance(judge(status, None, {}), Delivered)


@pytest.mark.parametrize("status", [408, 425, 429])
def test_s07_statuses_that_mean_later_are_retried(status: int) -> None:
    assert isinstance(judge(status, None, {}), Retry)
    assert isinstance(judge(400, None, {}), Dead)


async def test_s09_a_clock_that_is_set_back_does_not_change_the_order(harness: EngineHarness) -> None:
    await harness.contract(ordered=True)
    await harness.stream(1)
    harness.clock.step_wall(-3600)
    await harness.stream(1, first=2)
    await harness.store.maintenance.checkpoint()
    await harness.drain()
    assert harness.script.seqs == [1, 2]
    assert [event.payload["i"] for event in await harness.store.events.read("s", 0, 10)] == [1, 2]


async def test_s10_an_undeliverable_event_is_dead_and_counted(harness: EngineHarness) -> None:
    await harness.contract()
    harness.script.answer = lambda claim: Dead(Reason.REJECTED, "no such customer")
    await harness.stream(1)
    await harness.drain()
    assert [(row.state, row.reason) for row in await harness.rows()] == [("dead", "rejected")]


async def test_s11_an_accepted_event_survives_a_later_failure(harness: EngineHarness, monkeypatch) -> None:
    """Routing fails after the event was accepted: the event stays unrouted, and is routed later."""
    await harness.contract()

    def broken(*_: object) -> None:
        raise RuntimeError("the dispatcher is broken")

    (accepted,) = await harness.store.events.append([new_event("t.x")])
    with monkeypatch.context() as patch:
        patch.setattr(harness.registry, "refresh", broken)
        patch.setattr(harness.registry, "version", -1)
        with pytest.raises(RuntimeError):
            await harness.router.tick()
    assert await harness.store.events.get(accepted.id) is not None
    await harness.route()
    await harness.drain()
    assert [claim.event.id for claim in harness.script.seen] == [accepted.id]


async def test_s12_a_handler_in_flight_at_the_end_is_called_again(harness: EngineHarness) -> None:
    await harness.contract()
    harness.script.answer = lambda claim: asyncio.sleep(3600) if len(harness.script.seen) == 1 else Delivered()
    await harness.stream(1)
    await harness.step()
    assert len(harness.script.seen) == 1
    await harness.engine.stop(grace_s=0)
    await harness.store.owners.retire(harness.owner)
    harness.owner = await harness.store.owners.register()
    harness.engine = harness.new_engine()
    await harness.store.deliveries.reclaim()
    await harness.drain()
    assert await harness.states() == ["delivered"]
    assert len(harness.script.seen) == 2


async def test_s14_a_slow_handler_keeps_its_lease_and_runs_once(harness: EngineHarness) -> None:
    await harness.contract(timeout_s=3600)
    done = asyncio.Event()

    async def slow(claim: Claim) -> Delivered:
        await done.wait()
        return Delivered()

    harness.script.answer = slow
    await harness.stream(1)
    await harness.step()
    renewal = harness.engine.renewal
    for _ in range(30):
        harness.clock.advance(10)
        await renewal.tick()
        assert await harness.store.deliveries.reclaim() == 0
        await harness.step()
    done.set()
    await harness.drain()
    assert await harness.states() == ["delivered"]
    assert len(harness.script.seen) == 1


async def test_s15_three_hundred_streams_all_get_their_turn(harness: EngineHarness) -> None:
    await harness.contract(ordered=True)
    for number in range(300):
        await harness.store.events.append([new_event("t.x", stream=f"s{number:03}") for _ in range(2)])
    await harness.route()
    await harness.drain(steps=400)
    assert len({claim.event.stream for claim in harness.script.seen}) == 300
    assert set(await harness.states()) == {"delivered"}


async def test_s16_a_duty_never_overlaps_itself() -> None:
    class Slow:
        name, running, most, ticks = "slow", 0, 0, 0

        async def tick(self) -> float:
            self.running += 1
            self.most, self.ticks = max(self.most, self.running), self.ticks + 1
            await asyncio.sleep(0.01)
            self.running -= 1
            return 0.0

    loop, duty = Loop(SeededChance(1)), Slow()
    wake = loop.add(duty, poll_s=0.001)
    async with asyncio.timeout(60):
        while duty.ticks < 10:
            wake()
            await asyncio.sleep(0.001)
    await loop.stop()
    assert duty.most == 1


async def test_s17_an_event_that_commits_late_is_still_routed(harness: EngineHarness, tmp_path: Path) -> None:
    """Numbers are assigned in the writer's transaction: a rollback leaves no gap."""
    await harness.contract()
    other = sqlite3.connect(tmp_path / "store.db")
    other.execute("INSERT INTO holdfast_publish (type) VALUES ('t.undone')")
    other.rollback()
    await harness.publish(new_event("t.first"))
    other.execute("INSERT INTO holdfast_publish (type) VALUES ('t.second')")
    other.commit()
    other.close()
    await harness.route()
    await harness.drain()
    assert [claim.event.type for claim in harness.script.seen] == ["t.first", "t.second"]


async def test_s18_a_secret_is_in_one_table_and_in_no_delivery(harness: EngineHarness, tmp_path: Path) -> None:
    await harness.store.contracts.put(Contract("c", parse_address("https://example.com/")), "canary-secret")
    await harness.registry.refresh()
    await harness.stream(3)
    reader = sqlite3.connect(tmp_path / "store.db")
    names = [name for (name,) in reader.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")]
    holding = {
        name for name in names
        if any("canary-secret" in str(row) for row in reader.execute(f'SELECT * FROM "{name}"'))
    }  # fmt: skip
    reader.close()
    assert holding == {"holdfast_secrets"}


async def test_s19_a_cut_tail_shows_against_a_head_kept_elsewhere(harness: EngineHarness, tmp_path: Path) -> None:
    """A chain alone cannot show that its tail is missing; a head stored elsewhere can."""
    await harness.contract()
    for number in range(3):
        await harness.stream(1, first=number + 1)
        await harness.drain()
    ((chain, head),) = (await harness.store.receipts.heads()).items()
    vandal = sqlite3.connect(tmp_path / "store.db")
    vandal.execute("DELETE FROM holdfast_receipts WHERE chain = ? AND seq = ?", (chain, head.seq))
    (before,) = vandal.execute("SELECT h_self FROM holdfast_receipts WHERE seq = ?", (head.seq - 1,)).fetchone()
    vandal.execute("UPDATE holdfast_nodes SET seq = seq - 1, head = ? WHERE chain = ?", (before, chain))
    vandal.commit()
    vandal.close()
    assert (await verify_receipts(harness.store.receipts)).ok
    found = await verify_receipts(harness.store.receipts, [(chain, head)])
    assert [fault.kind for fault in found.faults] == ["cut"]


async def test_s20_an_event_number_is_never_reused(harness: EngineHarness, tmp_path: Path) -> None:
    await harness.contract()
    await harness.stream(3)
    await harness.drain()
    vandal = sqlite3.connect(tmp_path / "store.db")
    before = [vandal.execute(f"SELECT max({column}) FROM {table}").fetchone()[0]
              for table, column in (("holdfast_events", "n"), ("holdfast_deliveries", "id"))]  # fmt: skip
    vandal.execute("DELETE FROM holdfast_deliveries")
    vandal.execute("DELETE FROM holdfast_events")
    vandal.commit()
    await harness.stream(1, first=4)
    after = [vandal.execute(f"SELECT max({column}) FROM {table}").fetchone()[0]
             for table, column in (("holdfast_events", "n"), ("holdfast_deliveries", "id"))]  # fmt: skip
    vandal.close()
    assert [now > then for now, then in zip(after, before, strict=True)] == [True, True]

"""The checks of the simulation: each kind of violation is detected."""

from __future__ import annotations

from dataclasses import replace

from holdfast.proof.kills.evidence import StoreRows
from holdfast.proof.simulation.checks import (
    check_absorbing,
    check_duplicates,
    check_holders,
    check_lanes,
    check_leases,
    check_quiet,
    check_refusals,
    check_stale,
    check_starts,
    check_success,
)
from holdfast.proof.simulation.ledger import Attempt, Case, Change, Ledger, LifeRecord, Seen, Settled
from holdfast.proof.simulation.receipts import Status, _follows

WAITING = Seen(1, "evt1", "ordered", 1, "pending", 1, 0, None, 1, 1, None, None, 0)
HELD = WAITING._replace(token=7, owner=3, starts=1)
DONE = HELD._replace(state="delivered", attempts=1, token=None, owner=None, starts=None)


def attempt(n: int, **more: object) -> Attempt:
    made = Attempt(n, "one", 1, 1, "ordered", "evt1", "s", 1, "k", "d", "b", 7, False, None, 0.0, "ok", n + 1)
    return replace(made, **more)  # type: ignore[arg-type]


def case(*changes: tuple[Seen, Seen], attempts: tuple[Attempt, ...] = (), settled: tuple[Settled, ...] = ()) -> Case:
    ledger = Ledger(attempts=list(attempts), settled=list(settled), lives={"one": LifeRecord("one", owner=3)})
    ledger.changes = [Change(n * 10, *change) for n, change in enumerate(changes, start=1)]
    rows = StoreRows([], [], [], frozenset(), frozenset(), {}, [])
    return Case(ledger, rows, frozenset({"ordered"}), frozenset({"ordered"}), quiet=True)


def test_a_correct_history_passes() -> None:
    good = case((WAITING, HELD), (HELD, DONE), attempts=(attempt(15),), settled=(Settled(25, "one", 1, 7, False),))
    for judge in (check_success, check_lanes, check_holders, check_leases, check_duplicates, check_absorbing,
                  check_starts, check_quiet):  # fmt: skip
        assert list(judge(good)) == []


def test_delivered_without_an_ok_is_detected() -> None:
    assert list(check_success(case((HELD, DONE), attempts=(attempt(15, answer="503"),))))


def test_an_attempt_that_overtakes_is_detected() -> None:
    assert list(check_lanes(case(attempts=(attempt(1, overtakes=4),))))


def test_first_attempts_out_of_order_are_detected() -> None:
    assert list(check_lanes(case(attempts=(attempt(1, seq=2), attempt(3, seq=1)))))


def test_a_settlement_with_another_lease_is_detected() -> None:
    assert list(check_holders(case((HELD, DONE), settled=(Settled(25, "one", 1, 8, False),))))


def test_a_lease_lost_without_a_cause_is_detected() -> None:
    lost = case((HELD, WAITING))
    assert list(check_leases(lost))
    lost.ledger.lives["one"].stalled_until_s = 0.0
    assert not list(check_leases(lost))


def test_a_freeze_excuses_only_leases_lost_soon_after() -> None:
    lost = case((HELD, WAITING))
    lost.ledger.lives["one"].stalled_until_s = 50.0
    lost.ledger.changes = [change._replace(at_s=51.0) for change in lost.ledger.changes]
    assert list(check_leases(lost))


def test_an_attempt_without_a_lease_is_detected() -> None:
    stale = case(attempts=(attempt(1, stale=True, at_s=20.0),))
    assert list(check_stale(stale))
    stale.ledger.operated[1] = 15.0
    assert not list(check_stale(stale))
    stale.ledger.operated[1] = 1.0
    assert list(check_stale(stale))
    stale.ledger.lives["one"].stalled_until_s = 25.0
    assert not list(check_stale(stale))


def test_a_dead_delivery_without_a_cause_is_detected() -> None:
    dead = HELD._replace(state="dead", attempts=1, reason="rejected", token=None, owner=None, starts=None)
    assert list(check_refusals(case((HELD, dead), attempts=(attempt(1, answer="429"),))))
    assert not list(check_refusals(case((HELD, dead), attempts=(attempt(1, answer="400"),))))
    assert list(check_refusals(case((HELD, dead._replace(reason="exhausted")))))
    assert not list(check_refusals(case((HELD, dead._replace(reason="exhausted", attempts=4)))))


def test_a_duplicate_without_a_cause_is_detected() -> None:
    twice = case(attempts=(attempt(1), attempt(5, token=9)))
    assert list(check_duplicates(twice))
    twice.ledger.lives["one"].died_n = 3
    assert not list(check_duplicates(twice))


def test_an_end_that_is_undone_is_detected() -> None:
    assert list(check_absorbing(case((DONE, WAITING))))
    assert list(check_absorbing(case((DONE, WAITING._replace(generation=2)))))


def test_a_claim_without_a_start_is_detected() -> None:
    assert list(check_starts(case((WAITING, HELD._replace(starts=0)))))


def test_pending_work_at_the_end_is_detected() -> None:
    assert list(check_quiet(replace(case(), quiet=False)))


def test_receipts_allow_only_valid_transitions() -> None:
    start = Status(1, 0, False, "pending", "")
    dead = Status(1, 1, True, "dead", "rejected")
    assert _follows(start, dead)
    assert _follows(dead, Status(2, 0, False, "pending", ""))
    assert not _follows(dead, Status(1, 2, True, "delivered", ""))
    assert not _follows(start, Status(1, 2, False, "pending", ""))

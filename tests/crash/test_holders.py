"""The judge of holders: a settlement by anybody but the holder is seen, and only trouble explains a lost lease."""

from __future__ import annotations

from dataclasses import replace

import pytest

from books import broken, good, received
from holdfast.domain.receipt import NO_LINKS, leaf_line, link
from holdfast.testing.prove.audit import Change, Note, fold
from holdfast.testing.prove.checker import check
from holdfast.testing.prove.evidence import Attempt, Evidence, Holders, Lease, Settle
from holdfast.testing.prove.records import Accepted, Answered, Struck

LEASE_MS = 20


def held(evidence: Evidence | None = None) -> Evidence:
    """Life 0 takes the first delivery, stands still, and loses it to life 1, which settles both."""
    taken = Lease(1, 0, 8, 40, "taken")
    first, second = Lease(1, 1, 45, 60, "settled"), Lease(2, 1, 65, 80, "settled")
    settles = [Settle(1, 1, "delivered", 60, first), Settle(2, 1, "delivered", 80, second)]
    holders = Holders([taken, first, second], settles, [Attempt(1, 1, 46)], LEASE_MS, clock_slack_ms=0)
    stopped = Struck("daemon stopped", 0, 15, 42, 42)
    return replace(evidence or good(), killed=[], struck=[stopped], holders=holders)


def with_settle(evidence: Evidence, settle: Settle) -> Evidence:
    assert evidence.holders is not None
    return replace(evidence, holders=replace(evidence.holders, settles=[settle, *evidence.holders.settles[1:]]))


def test_a_take_over_that_trouble_explains_passes() -> None:
    verdict = check(held())
    assert verdict.violations == ()
    assert dict(verdict.duplicates.explained) == {"daemon stopped": 1}


@pytest.mark.parametrize(
    "settle",
    [
        pytest.param(Settle(1, 0, "delivered", 60, None), id="no lease at all"),
        pytest.param(Settle(1, 0, "delivered", 60, Lease(1, 1, 45, 60, "settled")), id="somebody else's lease"),
        pytest.param(Settle(1, 1, "delivered", 60, Lease(1, 1, 52, 60, "settled")), id="an ok from before the claim"),
    ],
)
def test_a_settle_by_a_stale_holder_is_seen(settle: Settle) -> None:
    assert "stale" in broken(with_settle(held(), settle))


def test_a_failed_attempt_from_before_the_claim_is_seen() -> None:
    evidence = held()
    assert evidence.holders is not None
    old = replace(evidence.holders, attempts=[Attempt(1, 1, 44)])
    assert "stale" in broken(replace(evidence, holders=old))


def test_a_lease_that_was_taken_without_trouble_explains_nothing() -> None:
    assert "duplicate" in broken(replace(held(), struck=[]))
    assert "duplicate" in broken(replace(held(), struck=[Struck("daemon stopped", 7, 15, 42, 42)])), "another daemon's"
    assert "duplicate" in broken(replace(held(), struck=[Struck("sessions terminated", None, 41, 42, 42)])), "too late"


def test_a_lease_past_its_time_is_a_cause_by_itself() -> None:
    evidence = replace(held(), struck=[])
    assert evidence.holders is not None
    late = replace(evidence.holders, leases=[Lease(1, 0, 8, 40, "run out"), *evidence.holders.leases[1:]])
    assert dict(check(replace(evidence, holders=late)).duplicates.explained) == {"lease ran out": 1}


def test_a_sender_that_had_settled_has_no_excuse_to_be_repeated() -> None:
    evidence = held()
    assert evidence.holders is not None
    leases = [Lease(1, 0, 8, 40, "settled"), *evidence.holders.leases[1:]]
    assert "duplicate" in broken(replace(evidence, holders=replace(evidence.holders, leases=leases)))


def test_a_request_without_a_lease_needs_a_crash_of_the_server() -> None:
    """A claim is not flushed on its own: a crash may lose it, while its request is on the way."""
    evidence = held()
    assert evidence.holders is not None
    lost = replace(evidence, holders=replace(evidence.holders, leases=evidence.holders.leases[1:]))
    assert "duplicate" in broken(lost)
    assert "duplicate" not in broken(replace(lost, struck=[Struck("postmaster killed", None, 15, 30, 30)]))
    assert "duplicate" in broken(replace(lost, struck=[Struck("postmaster killed", None, 90, 95, 95)]))


def test_a_request_belongs_to_the_lease_in_force_when_it_arrives_and_a_late_one_to_an_earlier() -> None:
    """A claim that a crash lost leaves its request without a lease, and does not shift the others."""
    evidence = held()
    assert evidence.holders is not None
    leases = [Lease(1, 0, 8, 20, "settled"), Lease(1, 0, 22, 40, "run out"), Lease(1, 0, 60, 80, "settled")]
    requests = [received(n, 1, at, life=0) for n, at in ((1, 10), (2, 30), (3, 50), (4, 70))]
    mixed = replace(evidence, received=requests, holders=replace(evidence.holders, leases=leases))
    assert mixed.lease_of == {1: leases[0], 2: leases[1], 4: leases[2]}
    late = [received(n, 1, at, life=0) for n, at in ((1, 62), (2, 70))]
    assert replace(mixed, received=late).lease_of == {1: leases[1], 2: leases[2]}


def test_one_lease_does_not_excuse_two_requests() -> None:
    evidence = replace(held(), struck=[])
    twice = [*evidence.received[1:], received(4, 2, 75)]
    answers = {**evidence.answers, 4: Answered(4, "ok", 78)}
    assert "duplicate" in broken(replace(evidence, received=twice, answers=answers))


def test_who_wakes_and_sends_late_is_explained_and_not_held_against_the_order() -> None:
    late = [received(1, 1, 50), received(2, 2, 70), received(3, 1, 72, life=0)]
    answers = {n: Answered(n, "ok", at) for n, at in ((1, 55), (2, 75), (3, 77))}
    evidence = replace(held(), received=late, answers=answers)
    assert check(evidence).violations == ()
    assert {"order", "absorbing", "duplicate"} <= broken(replace(evidence, holders=None, struck=[]))


def test_event_and_business_row_come_and_go_together() -> None:
    evidence = held()
    published = [evidence.accepted[0]._replace(stream=None, seq=None), evidence.accepted[1]]
    assert broken(replace(evidence, accepted=published, business=frozenset({"key1"}))) == set()
    assert "undone" in broken(replace(evidence, accepted=published, business=frozenset())), "no row"
    assert "undone" in broken(replace(evidence, business=frozenset({"key9"}))), "no event"
    assert "undone" in broken(replace(evidence, undone=frozenset({"key2"}))), "rolled back, and yet there"
    elsewhere = [Accepted("key2", "evt1", None, None, False, 6), *evidence.accepted]
    assert "bytes" in broken(replace(evidence, accepted=elsewhere)), "the id of another key"


def test_leases_and_settlements_are_put_together_from_what_the_database_noted() -> None:
    """Claimed by 3, taken, claimed by 4, settled by 4; beside it one given back, one run out, and one still held."""
    book = link("node-0001", NO_LINKS, 60, [leaf_line(1, 1, "evt1", "delivered", None, 1, 60, "engine")])
    changes = [
        Change("10", 5, "hf-3", 1, None, 71, 0, 1),
        Change("11", 20, "hf-4", 1, 71, None, 1, 1, 25),
        Change("12", 30, "hf-4", 1, None, 72, 1, 2),
        Change("13", 60, "hf-4", 1, 72, None, 2, None),
        Change("14", 61, "hf-4", 2, None, 73, 0, 1),
        Change("15", 62, "hf-4", 2, 73, None, 1, 0),
        Change("17", 64, "hf-4", 4, None, 75, 0, 1),
        Change("18", 99, "hf-3", 4, 75, None, 1, 1, 84),
        Change("16", 63, "hf-publisher", 3, None, 74, 0, 1),
    ]
    leases, settles = fold(changes, [Note("13", 60, "hf-4", "node-0001", 1)], [book])
    assert leases == [
        Lease(1, 3, 5, 20, "taken"), Lease(1, 4, 30, 60, "settled"), Lease(2, 4, 61, 62, "released"),
        Lease(4, 4, 64, 99, "run out"), Lease(3, -1, 63, None, "held"),
    ]  # fmt: skip
    assert settles == [Settle(1, 4, "delivered", 60, leases[1])]
    _, unfenced = fold(changes[:3], [Note("13", 60, "hf-3", "node-0001", 1)], [book])
    assert unfenced == [Settle(1, 3, "delivered", 60, None)], "a link without the end of a lease beside it"

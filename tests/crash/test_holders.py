"""The check of lease holders: only the holder may settle, and a lost lease needs a cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evidence_samples import broken, good, received
from holdfast.domain.receipt import NO_LINKS, leaf_lines, link
from holdfast.proof.kills.audit import Change, Note, fold
from holdfast.proof.kills.checker import check
from holdfast.proof.kills.evidence import Attempt, Evidence, Holders, Lease, Settle
from holdfast.proof.kills.records import Accepted, Answered, Disruption, Killed

LEASE_MS = 20


OVER = Lease(1, 0, 8, 40, "run out", 71)
FIRST, SECOND = Lease(1, 1, 45, 60, "settled", 72), Lease(2, 1, 65, 80, "settled", 73)


def held() -> Evidence:
    """Life 0 claims the first delivery, is stopped, and loses it to life 1, which settles both."""
    evidence = good()
    settles = [Settle(1, 1, "delivered", 60, FIRST), Settle(2, 1, "delivered", 80, SECOND)]
    holders = Holders([OVER, FIRST, SECOND], settles, [Attempt(1, 1, 46)], LEASE_MS, clock_slack_ms=0)
    stopped = Disruption("daemon stopped", 0, 15, 42, 42)
    named = [item._replace(token=70 + item.n) for item in evidence.received]
    return replace(evidence, received=named, killed=[], disruptions=[stopped], holders=holders)


def with_leases(evidence: Evidence, *leases: Lease) -> Evidence:
    assert evidence.holders is not None
    return replace(evidence, holders=replace(evidence.holders, leases=leases))


def with_settle(evidence: Evidence, settle: Settle) -> Evidence:
    assert evidence.holders is not None
    return replace(evidence, holders=replace(evidence.holders, settles=[settle, *evidence.holders.settles[1:]]))


def test_a_takeover_that_a_disruption_explains_passes() -> None:
    verdict = check(held())
    assert verdict.violations == ()
    assert dict(verdict.duplicates.explained) == {"daemon stopped": 1}


@pytest.mark.parametrize(
    "settle",
    [
        pytest.param(Settle(1, 0, "delivered", 60, None), id="no lease at all"),
        pytest.param(Settle(1, 0, "delivered", 60, Lease(1, 1, 45, 60, "settled")), id="lease of another life"),
        pytest.param(Settle(1, 1, "delivered", 60, Lease(1, 1, 52, 60, "settled")), id="an ok from before the claim"),
    ],
)
def test_a_settlement_by_a_stale_holder_is_detected(settle: Settle) -> None:
    assert "stale" in broken(with_settle(held(), settle))


@pytest.mark.parametrize(("started_ms", "is_stale"), [(42, True), (43, False)])
def test_an_attempt_from_before_the_claim_is_detected(started_ms: int, is_stale: bool) -> None:
    evidence = held()
    assert evidence.holders is not None
    old = replace(evidence.holders, attempts=[Attempt(1, 1, started_ms)])
    assert ("stale" in broken(replace(evidence, holders=old))) is is_stale


def test_a_disruption_of_another_daemon_or_at_a_later_time_is_not_the_cause() -> None:
    causes = [
        check(replace(held(), disruptions=[disruptions])).duplicates.explained
        for disruptions in (
            Disruption("daemon stopped", 7, 15, 42, 42),
            Disruption("sessions terminated", None, 41, 42, 42),
        )
    ]
    assert [dict(one) for one in causes] == [{"lease ran out": 1}] * 2


def test_of_two_disruptions_the_later_one_is_the_cause_of_a_lost_lease() -> None:
    disruption = Disruption("sessions terminated", None, 9, 11, 11)
    evidence = held()
    assert dict(check(replace(evidence, disruptions=[*evidence.disruptions, disruption])).duplicates.explained) == {
        "daemon stopped": 1
    }


def test_an_expired_lease_is_a_cause_by_itself() -> None:
    assert dict(check(replace(held(), disruptions=[])).duplicates.explained) == {"lease ran out": 1}


def test_an_early_takeover_from_a_live_daemon_is_detected_and_never_excused() -> None:
    taken = with_leases(held(), OVER._replace(end="taken"), FIRST, SECOND)
    assert {"takeover", "duplicate"} <= broken(taken)
    disruption = Disruption("sessions terminated", None, 15, 42, 42)
    assert {"takeover", "duplicate"} <= broken(replace(taken, disruptions=[disruption]))
    dead = Killed(0, "daemon killed", None, 1, 1, 30, (), 30)
    assert broken(replace(taken, killed=[dead])) == set()
    assert "takeover" in broken(replace(taken, killed=[dead._replace(at_ms=41)])), "killed only afterwards"


def test_a_request_after_a_settlement_has_no_excuse() -> None:
    assert "duplicate" in broken(with_leases(held(), OVER._replace(end="settled"), FIRST, SECOND))


def test_a_request_without_a_lease_needs_a_crash_of_the_server() -> None:
    """A claim is not flushed to disk: a crash may lose it while its request is being sent."""
    lost = with_leases(held(), FIRST, SECOND)
    assert "duplicate" in broken(lost)
    assert "duplicate" not in broken(replace(lost, disruptions=[Disruption("postmaster killed", None, 15, 30, 30)]))
    assert "duplicate" in broken(replace(lost, disruptions=[Disruption("postmaster killed", None, 90, 95, 95)]))


def test_a_request_belongs_to_the_lease_whose_token_it_names() -> None:
    """At any time of arrival. Without a token, or if a crash lost the lease, it belongs to none."""
    evidence = held()
    leases = [Lease(1, 0, 8, 20, "settled", 1), Lease(1, 0, 22, 40, "run out", 2), Lease(2, 0, 60, 80, "settled", 1)]
    requests = [received(n, 1, 10 * n, life=0, token=token) for n, token in ((1, 2), (2, 1), (3, None), (4, 9))]
    named = with_leases(replace(evidence, received=requests), *leases)
    assert named.lease_of == {1: leases[1], 2: leases[0]}


def test_one_lease_excuses_one_request_and_another_only_if_the_first_failed() -> None:
    """A client may repeat a request at once when a kept-alive connection breaks."""
    evidence = held()
    again = received(4, 1, 14, life=0, token=71)
    answers = {**evidence.answers, 4: Answered(4, "ok", 15)}
    twice = replace(evidence, received=[*evidence.received, again], answers=answers)
    assert "duplicate" in broken(twice)
    broke_off = replace(twice, answers={**answers, 1: Answered(1, "reset", 12)})
    assert dict(check(broke_off).duplicates.explained) == {"sink failed or reset": 1, "daemon stopped": 1}


def test_a_late_request_of_a_stopped_daemon_is_explained_and_does_not_break_the_order() -> None:
    late = [received(1, 1, 50, token=72), received(2, 2, 70, token=73), received(3, 1, 72, life=0, token=71)]
    answers = {n: Answered(n, "ok", at) for n, at in ((1, 55), (2, 75), (3, 77))}
    evidence = replace(held(), received=late, answers=answers)
    assert check(evidence).violations == ()
    assert {"order", "absorbing", "duplicate"} <= broken(replace(evidence, holders=None, disruptions=[]))


def test_event_and_business_row_are_committed_together() -> None:
    evidence = held()
    published = [evidence.accepted[0]._replace(stream=None, seq=None), evidence.accepted[1]]
    assert broken(replace(evidence, accepted=published, business=frozenset({"key1"}))) == set()
    assert "rollback" in broken(replace(evidence, accepted=published, business=frozenset())), "no row"
    assert "rollback" in broken(replace(evidence, business=frozenset({"key9"}))), "no event"
    assert "rollback" in broken(replace(evidence, rolled_back=frozenset({"key2"}))), "rolled back, and yet there"
    elsewhere = [Accepted("key2", "evt1", None, None, False, 6), *evidence.accepted]
    assert "bytes" in broken(replace(evidence, accepted=elsewhere)), "the id of another key"


def test_leases_and_settlements_are_built_from_the_trigger_records() -> None:
    """Claimed by 3, taken, claimed by 4, settled by 4; also one released, one run out, and one still held."""
    receipt = link("node-0001", NO_LINKS, 60, leaf_lines([(1, 1, "evt1", "delivered", None, 1)], 60, "engine"))
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
    leases, settles = fold(changes, [Note("13", 60, "hf-4", "node-0001", 1)], [receipt])
    assert leases == [
        Lease(1, 3, 5, 20, "taken", 71), Lease(1, 4, 30, 60, "settled", 72), Lease(2, 4, 61, 62, "released", 73),
        Lease(4, 4, 64, 99, "run out", 75), Lease(3, -1, 63, None, "held", 74),
    ]  # fmt: skip
    assert settles == [Settle(1, 4, "delivered", 60, leases[1])]
    _, unfenced = fold(changes[:3], [Note("13", 60, "hf-3", "node-0001", 1)], [receipt])
    assert unfenced == [Settle(1, 3, "delivered", 60, None)], "a link without the end of a lease beside it"

"""The checker: evidence that keeps every promise passes, and each kind of violation is detected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evidence_samples import broken, good, received
from holdfast.domain.receipt import Head, leaf_lines, link
from holdfast.proof.kills.checker import check
from holdfast.proof.kills.evidence import Ended, Evidence, LeaseRow
from holdfast.proof.kills.records import Accepted, Answered, Killed, Refused, Sent


def with_store(evidence: Evidence, **changes: object) -> Evidence:
    return replace(evidence, store=replace(evidence.store, **changes))


def with_delivery(evidence: Evidence, index: int, **changes: object) -> Evidence:
    rows = list(evidence.store.deliveries)
    rows[index] = rows[index]._replace(**changes)
    return with_store(evidence, deliveries=rows)


def test_evidence_that_keeps_every_promise_passes() -> None:
    verdict = check(good())
    assert verdict.violations == ()
    assert (verdict.duplicates.explained.total(), verdict.duplicates.unexplained) == (1, 0)
    assert (verdict.links, verdict.transitions) == (2, 2)


def test_an_accepted_event_that_is_gone_is_lost() -> None:
    evidence = good()
    assert "lost" in broken(
        replace(evidence, accepted=[*evidence.accepted, Accepted("key3", "evt3", "s", 3, False, 9)])
    )


def test_an_event_that_was_not_routed_to_a_contract_is_lost() -> None:
    evidence = good()
    assert "lost" in broken(with_store(evidence, deliveries=evidence.store.deliveries[:1]))


def test_a_pending_delivery_that_cannot_be_claimed_is_lost() -> None:
    stranded = with_delivery(good(), 1, state="pending", settled_at_ms=None, attempts=0)
    assert "lost" in broken(stranded)
    assert "lost" not in broken(with_delivery(stranded, 1, reachable=True))


def test_a_key_with_two_ids_or_a_refusal_is_detected() -> None:
    evidence = good()
    assert "keys" in broken(replace(evidence, accepted=[*evidence.accepted, Accepted("key1", "evt2", "s", 2, True, 9)]))
    assert "keys" in broken(replace(evidence, refused=[Refused("key9", 422, "no")]))


def test_an_event_that_was_never_sent_is_invented_unless_its_outcome_is_unknown() -> None:
    evidence = good()
    stranger = replace(evidence, received=[*evidence.received, received(4, 9, 90)])
    assert "invented" in broken(stranger)
    unknown = replace(stranger, sent={**evidence.sent, "key9": Sent("key9", "s", "d9", 1)})
    assert "invented" not in broken(unknown)


@pytest.mark.parametrize("change", [{"digest": "other"}, {"body": "other"}, {"seq": 7}, {"stream": "t"}])
def test_changed_bytes_are_detected(change: dict[str, object]) -> None:
    evidence = good()
    items = [evidence.received[0], evidence.received[1]._replace(**change), evidence.received[2]]
    assert "bytes" in broken(replace(evidence, received=items))


def test_delivered_without_a_good_answer_is_a_false_success() -> None:
    evidence = good()
    assert "false_success" in broken(replace(evidence, answers={**evidence.answers, 3: Answered(3, "lost", 75)}))
    assert "false_success" in broken(replace(evidence, received=evidence.received[:2]))


def test_an_attempt_before_the_end_of_its_predecessor_breaks_the_order() -> None:
    evidence = good()
    early = replace(evidence, received=[*evidence.received[:2], received(3, 2, 58)])
    assert "order" in broken(early)
    assert "order" in broken(with_delivery(evidence, 0, state="pending", settled_at_ms=None, reachable=True))


def test_first_requests_out_of_order_and_late_repetitions_break_the_order() -> None:
    evidence = good()
    assert "order" in broken(replace(evidence, received=[*evidence.received[:2], received(3, 2, 5)]))
    assert "order" in broken(replace(evidence, received=[*evidence.received, received(4, 1, 90)]))


def test_a_lane_that_is_not_ordered_may_overtake() -> None:
    evidence = replace(good(), ordered=frozenset())
    assert "order" not in broken(replace(evidence, received=[*evidence.received[:2], received(3, 2, 5)]))


def test_a_duplicate_needs_a_cause_between_the_two() -> None:
    evidence = good()
    assert "duplicate" in broken(replace(evidence, killed=[]))
    assert "duplicate" not in broken(
        replace(evidence, killed=[], answers={**evidence.answers, 1: Answered(1, "reset", 12)})
    )
    assert "duplicate" in broken(replace(evidence, killed=[Killed(0, "random", None, 1, 1, 60)])), "killed too late"
    noticed_late = Killed(0, "random", None, 1, 1, 60, (), 15)
    assert "duplicate" not in broken(replace(evidence, killed=[noticed_late])), "killed in time, and noticed late"
    again = [evidence.received[0], received(2, 1, 50, life=0), evidence.received[2]]
    assert "duplicate" in broken(replace(evidence, received=again)), "one life sent it twice"


def test_a_late_request_of_a_killed_daemon_is_explained_and_does_not_break_the_order() -> None:
    """The new process sends first; then the request of the killed one arrives, after the next delivery has started."""
    evidence = good()
    late = [received(1, 1, 50), received(2, 2, 70), received(3, 1, 72, life=0)]
    evidence = replace(
        evidence, received=late, answers={n: Answered(n, "ok", at) for n, at in ((1, 55), (2, 75), (3, 77))}
    )
    verdict = check(evidence)
    assert verdict.violations == ()
    assert dict(verdict.duplicates.explained) == {"sent before its sender was killed": 1}
    alive = replace(evidence, killed=[])
    assert {"duplicate", "order", "absorbing"} <= broken(alive)


def test_an_end_that_changes_or_is_followed_by_an_attempt_is_not_final() -> None:
    evidence = good()
    assert "absorbing" in broken(replace(evidence, ended_before={1: Ended("dead", "rejected", 1)}))
    assert "absorbing" in broken(replace(evidence, ended_before={99: Ended("dead", "rejected", 1)}))
    assert "absorbing" in broken(replace(evidence, received=[*evidence.received, received(4, 2, 90)]))


def test_a_second_with_more_requests_than_the_rate_allows_is_detected() -> None:
    evidence = replace(good(), rates={"limited": 10.0})

    def at(*seconds: float) -> Evidence:
        slots = [
            received(100 + n, 1, 100)._replace(contract="limited", slot_ns=round(s * 1e9))
            for n, s in enumerate(seconds)
        ]
        return replace(evidence, received=[*evidence.received, *slots])

    steady = [1 + number / 10 for number in range(100)]
    assert "rate" not in broken(at(*steady))
    assert "rate" not in broken(at(*steady, *steady[50:53])), "requests may begin a little late"
    assert "rate" in broken(at(*steady, *steady)), "two daemons that each keep to the rate alone"


def test_gaps_and_duplicate_deliveries_break_conservation() -> None:
    evidence = good()
    events = [evidence.store.events[0], evidence.store.events[1]._replace(seq=3)]
    assert "conservation" in broken(with_store(evidence, events=events))
    rows = [*evidence.store.deliveries, evidence.store.deliveries[0]._replace(id=3)]
    assert "conservation" in broken(with_store(evidence, deliveries=rows))
    assert "conservation" in broken(with_store(evidence, unmatched=frozenset({"evt1"})))


def test_receipts_that_do_not_verify_or_differ_from_the_table_are_detected() -> None:
    evidence = good()
    assert "receipts" in broken(with_store(evidence, links=evidence.store.links[:1]))
    edited = replace(evidence.store.links[1], leaves=evidence.store.links[1].leaves.replace(b"evt2", b"evt3"))
    assert "receipts" in broken(with_store(evidence, links=[evidence.store.links[0], edited]))
    assert "receipts" in broken(with_delivery(evidence, 1, attempts=2))
    head = evidence.store.heads["node-0001"]
    again = link("node-0001", head, 90, leaf_lines([(2, 1, "evt2", "dead", "rejected", 2)], 90, "engine"))
    grown = with_store(evidence, links=[*evidence.store.links, again], heads={"node-0001": Head(3, again.hash)})
    assert "receipts" in broken(with_delivery(grown, 1, state="dead", reason="rejected", attempts=2))


def test_pending_or_leased_deliveries_at_the_end_are_detected() -> None:
    evidence = good()
    assert "settled" in broken(with_store(evidence, leases=[LeaseRow(1, 1)]))
    assert "settled" in broken(with_store(evidence, unrouted=frozenset({"evt2"})))
    unanswered = replace(evidence, sent={**evidence.sent, "key9": Sent("key9", "s", "d9", 1)})
    assert "settled" in broken(unanswered)
    assert check(unanswered, settled=False).violations == ()

"""The checker: pure functions over the evidence, one for each promise.

`check` runs them all. With `settled=False` it can run at any time; with `settled=True` it also checks what must hold
only at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.domain.states import State
from holdfast.proof.kills.duplicates import Duplicates, judge_duplicates
from holdfast.proof.kills.evidence import Evidence, Violation
from holdfast.proof.kills.holders import check_holders, is_stale
from holdfast.proof.kills.order import check_order
from holdfast.proof.kills.rates import check_rates
from holdfast.proof.kills.receipts import check_receipts, count_links

ENDS = frozenset({State.DELIVERED, State.DEAD, State.DROPPED})


@dataclass(frozen=True)
class Verdict:
    """The result. The proof holds if `violations` is empty."""

    violations: tuple[Violation, ...]
    duplicates: Duplicates
    states: Counter[str]
    links: int
    transitions: int

    def count(self, *promises: str) -> int:
        return sum(violation.promise in promises for violation in self.violations)


def check(evidence: Evidence, *, settled: bool = True) -> Verdict:
    """Every violation of every promise. `settled`: the load has ended, so nothing may still be pending."""
    duplicates, unexplained = judge_duplicates(evidence)
    judges = [
        check_lost(evidence), check_keys(evidence), check_invented(evidence), check_bytes(evidence),
        check_false_success(evidence), check_order(evidence), unexplained, check_absorbing(evidence),
        check_conservation(evidence), check_receipts(evidence), check_rollbacks(evidence), check_holders(evidence),
        check_rates(evidence),
    ]  # fmt: skip
    if settled:
        judges.append(check_settled(evidence))
    links, transitions = count_links(evidence.store)
    return Verdict(
        tuple(violation for judge in judges for violation in judge),
        duplicates,
        Counter(row.state for row in evidence.store.deliveries),
        links,
        transitions,
    )


def check_lost(evidence: Evidence) -> Iterator[Violation]:
    """Every accepted event is stored, and its deliveries have ended or can still be claimed."""
    store = evidence.store
    known = {row.id for row in store.events}
    routed = {(row.event, row.contract) for row in store.deliveries}
    for item in evidence.accepted:
        if item.id not in known:
            yield Violation("lost", item.id, f"accepted with key {item.key}, but the store does not have it")
            continue
        if item.id in store.unrouted:
            continue
        for contract in sorted(evidence.contracts):
            if (item.id, contract) not in routed:
                yield Violation("lost", item.id, f"accepted and routed, but not to contract {contract}")
    for row in store.deliveries:
        if row.state not in ENDS and not row.reachable:
            yield Violation("lost", row.event, f"delivery {row.id} is pending and can never be claimed")


def check_keys(evidence: Evidence) -> Iterator[Violation]:
    """One key is one event, however often it was posted; and no event of the load is refused."""
    ids: dict[str, str] = {}
    for item in evidence.accepted:
        if ids.setdefault(item.key, item.id) != item.id:
            yield Violation("keys", item.key, f"answered with two ids, {ids[item.key]} and {item.id}")
    stored = Counter(row.key for row in evidence.store.events)
    for key, times in stored.items():
        if times > 1:
            yield Violation("keys", str(key), f"stored {times} times")
    for refused in evidence.refused:
        yield Violation("keys", refused.key, f"refused with {refused.status}: {refused.detail}")


def check_invented(evidence: Evidence) -> Iterator[Violation]:
    """No event arrives or is stored that was never sent."""
    accepted = {item.id for item in evidence.accepted}
    for item in evidence.received:
        if item.id not in accepted and item.key not in evidence.unknown:
            yield Violation("invented", item.id, "arrived, but was neither accepted nor of unknown outcome")
    for row in evidence.store.events:
        if row.id not in accepted and row.key not in evidence.unknown:
            yield Violation("invented", row.id, "stored, but was neither accepted nor of unknown outcome")


def check_bytes(evidence: Evidence) -> Iterator[Violation]:
    """What arrives is what was sent, and every attempt has the same body."""
    first_body: dict[str, str] = {}
    events = {row.id: row for row in evidence.store.events}
    for item in evidence.received:
        sent, stored = evidence.sent.get(item.key), events.get(item.id)
        if sent is None or sent.digest != item.digest:
            yield Violation("bytes", item.id, f"request {item.n} has another payload than key {item.key} was sent with")
        if first_body.setdefault(item.id, item.body) != item.body:
            yield Violation("bytes", item.id, f"request {item.n} has another body than the first attempt")
        if stored is not None and (stored.stream or stored.id, stored.seq) != (item.stream, item.seq):
            yield Violation("bytes", item.id, f"request {item.n} has another stream or seq than the store")
    for accepted in evidence.accepted:
        row = events.get(accepted.id)
        if row is None:
            continue
        answered = (accepted.stream, accepted.seq, accepted.key)
        if row.key != accepted.key or (
            accepted.seq is not None and (row.stream or row.id, row.seq, row.key) != answered
        ):
            yield Violation("bytes", accepted.id, "the store has another stream, seq or key than the response")


def check_false_success(evidence: Evidence) -> Iterator[Violation]:
    """`delivered` means that the receiver accepted the event and answered ok."""
    for row in evidence.store.deliveries:
        if row.state == State.DELIVERED:
            receipts = evidence.receipts_of.get((row.contract, row.event), [])
            if not any(evidence.answer_of(item) == "ok" for item in receipts):
                yield Violation(
                    "false_success", row.event, f"delivery {row.id} is delivered; the sink never answered ok"
                )


def check_absorbing(evidence: Evidence) -> Iterator[Violation]:
    """An end is final: it stays, and nothing is sent after it, except by a sender that had lost its lease."""
    for row in evidence.store.deliveries:
        before = evidence.ended_before.get(row.id)
        if before is not None and before != (row.state, row.reason, row.generation):
            yield Violation("absorbing", row.event, f"delivery {row.id} had ended as {before.state}, now {row.state}")
        receipts = evidence.receipts_of.get((row.contract, row.event), [])
        slack_ms = 0 if evidence.holders is None else evidence.holders.clock_slack_ms
        ended_ms = evidence.ended_ms.get(row.id)
        late = [item for item in receipts if ended_ms is not None and item.at_ms > ended_ms + slack_ms]
        if any(not is_stale(evidence, item) for item in late):
            yield Violation("absorbing", row.event, f"delivery {row.id} was attempted again after its end")
    for gone in evidence.ended_before.keys() - {row.id for row in evidence.store.deliveries}:
        yield Violation("absorbing", str(gone), "the delivery had ended, and is gone from the store")


def check_rollbacks(evidence: Evidence) -> Iterator[Violation]:
    """Event and business row are atomic: both exist after a commit, neither after a rollback."""
    for row in evidence.store.events:
        if row.key in evidence.rolled_back:
            yield Violation("rollback", row.id, f"key {row.key} was rolled back, but its event is stored")
    if evidence.business is None:
        return
    stored = {row.key for row in evidence.store.events}
    for key in sorted(evidence.business - stored, key=str):
        yield Violation("rollback", key, "the business row is stored, but its event is not")
    published = {item.key for item in evidence.accepted if item.seq is None}
    for key in sorted(published - evidence.business):
        yield Violation("rollback", key, "the event was published, but its business row is not stored")


def check_conservation(evidence: Evidence) -> Iterator[Violation]:
    """No gaps in streams, and exactly one delivery for each event and contract."""
    store = evidence.store
    seqs: dict[str, list[int]] = {}
    for event in store.events:
        if event.stream is not None:
            seqs.setdefault(event.stream, []).append(event.seq)
    for stream, found in seqs.items():
        if sorted(found) != list(range(1, len(found) + 1)):
            yield Violation("conservation", stream, "the seq numbers of the stream have a gap or a duplicate")
    pairs = Counter((row.event, row.contract) for row in store.deliveries)
    routed = sum(event.id not in store.unrouted for event in store.events)
    expected = routed * len(evidence.contracts)
    if sum(pairs.values()) != expected or any(times > 1 for times in pairs.values()):
        yield Violation("conservation", "deliveries", f"{sum(pairs.values())} deliveries instead of {expected}")
    for id in sorted({event.id for event in store.events} & set(store.unmatched)):
        yield Violation("conservation", id, "matched no contract, although both contracts match every event")


def check_settled(evidence: Evidence) -> Iterator[Violation]:
    """After the load has ended and the daemon has stopped: nothing is pending, and no lease is held."""
    store = evidence.store
    waiting = [row for row in store.deliveries if row.state not in ENDS]
    if waiting or store.unrouted:
        what = f"{len(waiting)} deliveries and {len(store.unrouted)} unrouted events are still pending"
        yield Violation("settled", waiting[0].event if waiting else "", what)
    for lease in store.leases:
        yield Violation(
            "settled", f"delivery {lease.delivery}", f"still leased to owner {lease.owner}, which has stopped"
        )
    for key in sorted(evidence.unknown)[:10]:
        yield Violation("settled", key, "was sent and never answered, although the daemon was restarted")

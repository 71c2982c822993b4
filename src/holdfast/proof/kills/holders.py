"""Lease holders: only the holder of a delivery's lease may settle it, and a lost lease needs a cause.

Triggers in the campaign's schema record every change of a lease and every receipt, with transaction and session
(`audit.py`). A settlement is valid if the transaction that wrote its receipt also ended a lease that the same life had
claimed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from holdfast.domain.states import State
from holdfast.proof.kills.disruptions import SERVER_KINDS
from holdfast.proof.kills.evidence import Evidence, Holders, Lease, Violation
from holdfast.proof.kills.records import Received

LOST = ("taken", "run out")
EXPIRED = "lease ran out"


def check_holders(evidence: Evidence) -> Iterator[Violation]:
    """No stale settlement: every settlement is made under the settler's own lease, with an outcome of that lease."""
    holders = evidence.holders
    if holders is None:
        return
    rows = {row.id: row for row in evidence.store.deliveries}
    for settle in holders.settles:
        subject = rows[settle.delivery].event if settle.delivery in rows else str(settle.delivery)
        what = f"delivery {settle.delivery} was settled as {settle.state} by life {settle.life}"
        if settle.lease is None:
            yield Violation("stale", subject, f"{what}, which held no lease of it")
        elif settle.lease.life != settle.life:
            yield Violation("stale", subject, f"{what}, while life {settle.lease.life} held its lease")
        elif settle.state == State.DELIVERED and settle.delivery in rows:
            row = rows[settle.delivery]
            if not _got_ok(evidence, holders, settle.lease, row.contract, row.event):
                yield Violation("stale", subject, f"{what}, which got no ok from the sink under that lease")
    yield from _check_attempt_starts(holders)
    yield from _check_takeovers(evidence, holders)


def _got_ok(evidence: Evidence, holders: Holders, lease: Lease, contract: str, event: str) -> bool:
    """Whether the sink answered ok to a request of this holder after the claim."""
    return any(
        item.life == lease.life
        and item.at_ms >= lease.claimed_ms - holders.clock_slack_ms
        and evidence.answer_of(item) == "ok"
        for item in evidence.receipts_of.get((contract, event), [])
    )


def _check_attempt_starts(holders: Holders) -> Iterator[Violation]:
    """A recorded attempt started under the lease that it ended.

    A daemon dates an attempt by its estimate of the database's clock, which lags by as long as the server's answer
    took. An attempt that outlived its lease started at least a whole lease before the next one was claimed.
    """
    slack_ms = holders.lease_ms // 10
    settles: defaultdict[int, list[Lease]] = defaultdict(list)
    for settle in holders.settles:
        if settle.lease is not None:
            settles[settle.delivery].append(settle.lease)
    for attempt in holders.attempts:
        leases = settles.get(attempt.delivery, [])
        # The n-th settlement of a delivery writes its n-th attempt.
        if 0 < attempt.attempt <= len(leases):
            lease = leases[attempt.attempt - 1]
            if attempt.started_ms < lease.claimed_ms - slack_ms:
                early_ms = lease.claimed_ms - attempt.started_ms
                what = f"attempt {attempt.attempt} started {early_ms} ms before the lease that it ended was claimed"
                yield Violation("stale", f"delivery {attempt.delivery}", what)


def _check_takeovers(evidence: Evidence, holders: Holders) -> Iterator[Violation]:
    """No lease of a live holder is reclaimed before its expiry: the holder may still be delivering."""
    for lease in holders.leases:
        if lease.end != "taken" or lease.ended_ms is None:
            continue
        killed_ms = evidence.killed_ms.get(lease.life)
        if killed_ms is None or lease.ended_ms < killed_ms - holders.clock_slack_ms:
            what = f"life {lease.life} was alive and lost its lease before it expired"
            yield Violation("takeover", f"delivery {lease.delivery}", what)


def is_stale(evidence: Evidence, item: Received) -> bool:
    """Whether the sender had lost its lease when this request arrived. A request already sent cannot be recalled."""
    killed_ns = evidence.killed_ns.get(item.life)
    if killed_ns is not None and killed_ns <= item.at_ns:
        return True
    if evidence.holders is None:
        return False
    lease = evidence.lease_of.get(item.n)
    if lease is None:
        return lost_claim_cause(evidence, item) is not None
    return lease.end in LOST and lease.ended_ms is not None and lease.ended_ms <= item.at_ms


def loss_cause(evidence: Evidence, lease: Lease) -> str | None:
    """The disruption that kept a holder from renewing its lease until it expired; None if it did not expire.

    An expired lease needs no disruption: on a busy machine a renewal may come too late. A lease reclaimed before its
    expiry has no excuse, unless its holder was killed.
    """
    if lease.end != "run out" or lease.ended_ms is None:
        return None
    mine = [disruption for disruption in evidence.disruptions if disruption.life in (None, lease.life)]
    hits = [
        disruption
        for disruption in mine
        if disruption.at_ms <= lease.ended_ms and lease.claimed_ms <= disruption.until_ms
    ]
    return (
        max(hits, key=lambda disruption: disruption.at_ms).kind if hits else EXPIRED
    )  # the last one: after earlier ones the lease was renewed


def lost_claim_cause(evidence: Evidence, item: Received) -> str | None:
    """The server crash that lost the claim of this request: claims are not flushed to disk."""
    assert evidence.holders is not None
    lease_ms = evidence.holders.lease_ms
    for disruption in evidence.disruptions:
        if (
            disruption.kind in SERVER_KINDS
            and disruption.at_ms - lease_ms <= item.at_ms <= disruption.until_ms + lease_ms
        ):
            return disruption.kind
    return None

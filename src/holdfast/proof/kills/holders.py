"""Holders: only who holds a delivery's lease may write down how it ended; and who lost one had a reason.

The database keeps the ledger: triggers in the campaign's own schema note every change of a lease and every link of the
book with the transaction and the session it came from (`audit.py`). A settlement belongs to its holder if the very
transaction that wrote it into the book also ended a lease, and that lease was taken by the same life of a daemon.
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
    """No settle by a stale holder: neither without a lease, nor with somebody else's, nor with an outcome of old."""
    holders = evidence.holders
    if holders is None:
        return
    rows = {row.id: row for row in evidence.store.deliveries}
    for settle in holders.settles:
        subject = rows[settle.delivery].event if settle.delivery in rows else str(settle.delivery)
        what = f"delivery {settle.delivery} was settled as {settle.state} by life {settle.life}"
        if settle.lease is None:
            yield Violation("stale", subject, f"{what}, who held no lease of it")
        elif settle.lease.life != settle.life:
            yield Violation("stale", subject, f"{what}, while life {settle.lease.life} held its lease")
        elif settle.state == State.DELIVERED and settle.delivery in rows:
            row = rows[settle.delivery]
            if not _got_ok(evidence, holders, settle.lease, row.contract, row.event):
                yield Violation("stale", subject, f"{what}, who was not told ok while it held the lease that ended")
    yield from _check_attempt_starts(holders)
    yield from _check_takeovers(evidence, holders)


def _got_ok(evidence: Evidence, holders: Holders, lease: Lease, contract: str, event: str) -> bool:
    """Whether the sink said ok to this holder, to a request that came after the claim."""
    return any(
        item.life == lease.life
        and item.at_ms >= lease.claimed_ms - holders.clock_slack_ms
        and evidence.answer_of(item) == "ok"
        for item in evidence.receipts_of.get((contract, event), [])
    )


def _check_attempt_starts(holders: Holders) -> Iterator[Violation]:
    """A failed attempt that was written down began under the lease that it ended."""
    settles: defaultdict[int, list[Lease]] = defaultdict(list)
    for settle in holders.settles:
        if settle.lease is not None:
            settles[settle.delivery].append(settle.lease)
    for attempt in holders.attempts:
        leases = settles.get(attempt.delivery, [])
        # The n-th attempt is what the n-th settlement of this delivery wrote down.
        if 0 < attempt.attempt <= len(leases):
            lease = leases[attempt.attempt - 1]
            if attempt.started_ms < lease.claimed_ms - holders.clock_slack_ms:
                what = f"attempt {attempt.attempt} began before the lease that it ended was taken"
                yield Violation("stale", f"delivery {attempt.delivery}", what)


def _check_takeovers(evidence: Evidence, holders: Holders) -> Iterator[Violation]:
    """Nobody takes a lease before its time from one who lives: its holder may be in the middle of the work."""
    for lease in holders.leases:
        if lease.end != "taken" or lease.ended_ms is None:
            continue
        killed_ms = evidence.killed_ms.get(lease.life)
        if killed_ms is None or lease.ended_ms < killed_ms - holders.clock_slack_ms:
            what = f"life {lease.life} lost its lease before the end of it, and lived"
            yield Violation("takeover", f"delivery {lease.delivery}", what)


def is_stale(evidence: Evidence, item: Received) -> bool:
    """Whether its sender had lost the right to send by the time this arrived: no lease can hold back what is sent."""
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
    """The trouble that kept a holder from renewing its lease until it ran out; None if it did not run out.

    A lease past its time needs none: whoever is kept from renewing it on a busy machine must lose it. One that was
    taken before its time has no excuse, unless its holder was killed.
    """
    if lease.end != "run out" or lease.ended_ms is None:
        return None
    mine = [one for one in evidence.disruptions if one.life in (None, lease.life)]
    hits = [one for one in mine if one.at_ms <= lease.ended_ms and lease.claimed_ms <= one.until_ms]
    return max(hits, key=lambda one: one.at_ms).kind if hits else EXPIRED  # the last: before it, it was renewed


def lost_claim_cause(evidence: Evidence, item: Received) -> str | None:
    """The crash of the server that lost the claim under which this was sent: claims are not flushed one by one."""
    assert evidence.holders is not None
    lease_ms = evidence.holders.lease_ms
    for one in evidence.disruptions:
        if one.kind in SERVER_KINDS and one.at_ms - lease_ms <= item.at_ms <= one.until_ms + lease_ms:
            return one.kind
    return None

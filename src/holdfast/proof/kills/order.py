"""Order: on an ordered lane, delivery n+1 is not attempted before delivery n has ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from holdfast.proof.kills.evidence import DeliveryRow, Evidence, Violation
from holdfast.proof.kills.holders import is_stale
from holdfast.proof.kills.records import Received


def check_order(evidence: Evidence) -> Iterator[Violation]:
    """Check each lane twice: from the sink's records alone, and against the ends in the store.

    Requests that arrive after their sender was killed or lost its lease do not count: a request already sent cannot
    be recalled.
    """
    events = {row.id: row for row in evidence.store.events}
    lanes: defaultdict[tuple[str, str], list[DeliveryRow]] = defaultdict(list)
    for row in evidence.store.deliveries:
        stream = events[row.event].stream
        if row.contract in evidence.ordered and stream is not None:
            lanes[row.contract, stream].append(row)
    for (contract, stream), rows in lanes.items():
        rows.sort(key=lambda row: events[row.event].seq)
        yield from _check_first_receipts(evidence, f"{contract} {stream}", rows)
        for before, after in pairwise(rows):
            yield from _check_pair(evidence, f"{contract} {stream}", before, after)


def _check_first_receipts(evidence: Evidence, lane: str, rows: Sequence[DeliveryRow]) -> Iterator[Violation]:
    """First requests arrive in the order of `seq`."""
    latest = None
    for row in rows:
        receipts = _valid_receipts(evidence, row)
        if not receipts:
            continue
        if latest is not None and receipts[0].at_ns < latest.at_ns:
            yield Violation("order", lane, f"seq {receipts[0].seq} arrived before seq {latest.seq}")
        latest = receipts[0]


def _check_pair(evidence: Evidence, lane: str, before: DeliveryRow, after: DeliveryRow) -> Iterator[Violation]:
    """Two consecutive deliveries: the later one starts only after the earlier one has ended."""
    later = _valid_receipts(evidence, after)
    if not later:
        return
    first = later[0]
    earlier = evidence.receipts_of.get((before.contract, before.event), [])
    standing = _valid_receipts(evidence, before)
    ended_ms = evidence.ended_ms.get(before.id)
    slack_ms = 0 if evidence.holders is None else evidence.holders.clock_slack_ms
    if ended_ms is None:
        yield Violation("order", lane, f"seq {first.seq} was attempted while its predecessor is still pending")
    elif first.at_ms < ended_ms - slack_ms:
        yield Violation("order", lane, f"seq {first.seq} was attempted before its predecessor had ended")
    if standing and standing[-1].at_ns > first.at_ns:
        yield Violation("order", lane, f"seq {standing[-1].seq} was attempted again after seq {first.seq} had started")
    taken = [evidence.answers[item.n].at_ns for item in earlier if evidence.answer_of(item) == "ok"]
    if before.state == "delivered" and (not taken or min(taken) > first.at_ns):
        yield Violation("order", lane, f"seq {first.seq} was attempted before the sink had accepted its predecessor")


def _valid_receipts(evidence: Evidence, row: DeliveryRow) -> list[Received]:
    """The requests whose senders were alive and, as far as known, held the lease."""
    receipts = evidence.receipts_of.get((row.contract, row.event), [])
    return [item for item in receipts if not is_stale(evidence, item)]

"""Order: on an ordered lane, n+1 is not attempted before n has its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from holdfast.testing.prove.evidence import DeliveryRow, Evidence, Violation


def check_order(evidence: Evidence) -> Iterator[Violation]:
    """Lane by lane, twice: from the sink's book alone, and against the ends the store wrote down."""
    events = {row.id: row for row in evidence.store.events}
    lanes: defaultdict[tuple[str, str], list[DeliveryRow]] = defaultdict(list)
    for row in evidence.store.deliveries:
        stream = events[row.event].stream
        if row.contract in evidence.ordered and stream is not None:
            lanes[row.contract, stream].append(row)
    for (contract, stream), rows in lanes.items():
        rows.sort(key=lambda row: events[row.event].seq)
        yield from _first_receipts(evidence, f"{contract} {stream}", rows)
        for before, after in pairwise(rows):
            yield from _pair(evidence, f"{contract} {stream}", before, after)


def _first_receipts(evidence: Evidence, lane: str, rows: Sequence[DeliveryRow]) -> Iterator[Violation]:
    """First receipts come in the order of `seq`."""
    latest = None
    for row in rows:
        receipts = evidence.receipts_of.get((row.contract, row.event))
        if not receipts:
            continue
        if latest is not None and receipts[0].at_ns < latest.at_ns:
            yield Violation("order", lane, f"seq {receipts[0].seq} arrived before seq {latest.seq} ever did")
        latest = receipts[0]


def _pair(evidence: Evidence, lane: str, before: DeliveryRow, after: DeliveryRow) -> Iterator[Violation]:
    """Neighbours: the later one begins only when the earlier one is through."""
    later = evidence.receipts_of.get((after.contract, after.event))
    if not later:
        return
    first = later[0]
    earlier = evidence.receipts_of.get((before.contract, before.event), [])
    if before.settled_at_ms is None:
        yield Violation("order", lane, f"seq {first.seq} was attempted while the one before it is still pending")
    elif first.at_ms < before.settled_at_ms:
        yield Violation("order", lane, f"seq {first.seq} was attempted before the one ahead of it had its end")
    if earlier and earlier[-1].at_ns > first.at_ns:
        yield Violation("order", lane, f"seq {earlier[-1].seq} was attempted again after seq {first.seq} had begun")
    taken = [evidence.answers[item.n].at_ns for item in earlier if evidence.answer_of(item) == "ok"]
    if before.state == "delivered" and (not taken or min(taken) > first.at_ns):
        yield Violation("order", lane, f"seq {first.seq} was attempted before the sink had taken the one ahead of it")

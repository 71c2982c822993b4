"""Receipts against the deliveries table, independent of any clock: a delivery's counters order its transitions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from holdfast.domain.receipt import verify
from holdfast.domain.states import State
from holdfast.proof.kills.evidence import Violation
from holdfast.proof.receipt_faults import compare_rows
from holdfast.proof.simulation.ledger import Case


class Status(NamedTuple):
    """Sorts by generation, then attempts, with `pending` before an end."""

    generation: int
    attempts: int
    ended: bool
    state: str
    reason: str


def check_receipts(case: Case) -> Iterator[Violation]:
    """The chains verify, each transition has one leaf, and the last leaf of a delivery equals its row."""
    for fault in verify(case.store.links, heads=case.store.heads):
        yield Violation("receipts", f"{fault.chain} {fault.seq}", f"{fault.kind}: {fault.message}")
    yield from (Violation("receipts", "fold", text) for text in compare_rows(case.store))
    statuses: defaultdict[int, list[Status]] = defaultdict(list)
    for link in case.store.links:
        for line in link.leaves.split(b"\n"):
            leaf = json.loads(line)
            if "delivery" not in leaf:
                continue
            ended = leaf["state"] != State.PENDING
            status = Status(leaf["generation"], leaf["attempts"], ended, leaf["state"], leaf["reason"] or "")
            statuses[leaf["delivery"]].append(status)
    for row in case.store.deliveries:
        history = [Status(1, 0, False, State.PENDING, ""), *sorted(statuses[row.id])]
        for before, after in pairwise(history):
            if not _follows(before, after):
                yield Violation("receipts", row.event, f"delivery {row.id}: {before} is followed by {after}")
        row_status = Status(row.generation, row.attempts, row.state != State.PENDING, row.state, row.reason or "")
        if history[-1] != row_status:
            yield Violation("receipts", row.event, f"delivery {row.id} is {row_status}; the receipts say {history[-1]}")


def _follows(before: Status, after: Status) -> bool:
    if after.generation != before.generation:  # an operator reprocessed an ended delivery
        return before.ended and (after.generation, after.attempts, after.ended) == (before.generation + 1, 0, False)
    if before.ended:
        return False
    return after.attempts == before.attempts + (after.state != State.DROPPED)

"""Receipts: the chains verify, and replaying them gives the states in the deliveries table."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from heapq import merge
from typing import Any

from holdfast.domain.receipt import Link, verify
from holdfast.domain.states import State
from holdfast.proof.kills.evidence import DeliveryRow, Evidence, StoreRows, Violation

Status = tuple[str, str | None, int, int]
"""state, reason, attempts, generation"""


def check_receipts(evidence: Evidence) -> Iterator[Violation]:
    store = evidence.store
    for fault in verify(store.links, heads=store.heads):
        yield Violation("receipts", f"{fault.chain} {fault.seq}", f"{fault.kind}: {fault.message}")
    for line in evidence.receipt_faults:
        yield Violation("receipts", "verify", line)
    statuses: dict[int, Status] = {}
    for leaf in _leaves(store):
        before = statuses.get(leaf["delivery"])
        after = (leaf["state"], leaf["reason"], leaf["attempts"], leaf["generation"])
        if before is not None and before[0] != State.PENDING and before[3] == after[3]:
            yield Violation("receipts", leaf["event"], f"delivery {leaf['delivery']} changed after its end")
        if before is not None and before[3] == after[3] and after[2] != before[2] + 1 and after[0] != State.DROPPED:
            yield Violation("receipts", leaf["event"], f"delivery {leaf['delivery']} skips an attempt in the receipts")
        statuses[leaf["delivery"]] = after
    for row in store.deliveries:
        if statuses.get(row.id, (State.PENDING, None, 0, 1)) != _status(row):
            yield Violation(
                "receipts", row.event, f"delivery {row.id} is {row.state}; the receipts say {statuses.get(row.id)}"
            )


def count_links(store: StoreRows) -> tuple[int, int]:
    """The number of links, and of the transitions in them."""
    return len(store.links), sum(link.count for link in store.links)


def _status(row: DeliveryRow) -> Status:
    return row.state, row.reason, row.attempts, row.generation


def _leaves(store: StoreRows) -> Iterator[dict[str, Any]]:
    """All transitions in order: by position within a chain, by time between chains."""
    chains: defaultdict[str, list[Link]] = defaultdict(list)
    for link in store.links:
        chains[link.chain].append(link)
    for link in merge(*chains.values(), key=lambda link: link.at_ms):
        for line in link.leaves.split(b"\n"):
            leaf = json.loads(line)
            if "delivery" in leaf:
                yield leaf

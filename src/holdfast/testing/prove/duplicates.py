"""Duplicates: at-least-once allows them, but each must have a cause that the books show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from holdfast.testing.prove.evidence import Evidence, Violation
from holdfast.testing.prove.records import Received

KILLED, ANSWERED_BADLY, LEASE_LOST = "killed between", "sink failed or hung up", "lease lost"


@dataclass(frozen=True)
class Duplicates:
    """How many receipts repeated an earlier one, by cause."""

    explained: Counter[str] = field(default_factory=Counter)
    unexplained: int = 0


def judge_duplicates(evidence: Evidence) -> tuple[Duplicates, Iterator[Violation]]:
    """Each receipt after the first needs a cause that lies between it and the one before."""
    causes: Counter[str] = Counter()
    found: list[Violation] = []
    for (contract, id), receipts in evidence.receipts_of.items():
        for before, after in pairwise(receipts):
            cause = _cause(evidence, before, after)
            if cause is None:
                what = f"request {after.n} repeats {before.n}, which was answered {evidence.answer_of(before)}"
                found.append(Violation("duplicate", id, f"{contract}: {what}, with no kill between them"))
            else:
                causes[cause] += 1
    return Duplicates(causes, len(found)), iter(found)


def _cause(evidence: Evidence, before: Received, after: Received) -> str | None:
    if evidence.answer_of(before) != "ok":
        return ANSWERED_BADLY
    if evidence.killed_between(before.at_ns, after.at_ns):
        return KILLED
    if (before.contract, before.id) in evidence.lease_lost:
        return LEASE_LOST
    return None

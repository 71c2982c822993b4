"""Duplicates: at-least-once delivery allows them, but the records must show a cause for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from holdfast.proof.kills.evidence import Evidence, Violation
from holdfast.proof.kills.holders import is_stale, loss_cause, lost_claim_cause
from holdfast.proof.kills.records import Received

KILLED, SENT_BEFORE_KILL, SINK_FAILED = "sender killed", "sent before its sender was killed", "sink failed or reset"


@dataclass(frozen=True)
class Duplicates:
    """How many requests repeated an earlier one, by cause."""

    explained: Counter[str] = field(default_factory=Counter)
    unexplained: int = 0


def judge_duplicates(evidence: Evidence) -> tuple[Duplicates, Iterator[Violation]]:
    """Each request after the first needs a cause that lies between it and the one before."""
    causes: Counter[str] = Counter()
    found: list[Violation] = []
    for (contract, id), receipts in evidence.receipts_of.items():
        for before, after in pairwise(receipts):
            cause = _cause(evidence, before, after)
            if cause is None:
                what = f"request {after.n} repeats {before.n}, which was answered {evidence.answer_of(before)}"
                found.append(Violation("duplicate", id, f"{contract}: {what}, and no disruption explains it"))
            else:
                causes[cause] += 1
    return Duplicates(causes, len(found)), iter(found)


def _cause(evidence: Evidence, before: Received, after: Received) -> str | None:
    if evidence.answer_of(before) != "ok":
        return SINK_FAILED
    return _why_not_settled(evidence, before, after) or _why_sent_late(evidence, before, after)


def _why_not_settled(evidence: Evidence, before: Received, after: Received) -> str | None:
    """Why the sender of the first request could not settle it."""
    lease = evidence.lease_of.get(before.n)
    if lease is not None and (lease.end == "settled" or lease == evidence.lease_of.get(after.n)):
        return None
    if before.life != after.life and _is_killed(evidence, before.life, after):
        return KILLED
    if evidence.holders is None:
        return None
    return lost_claim_cause(evidence, before) if lease is None else loss_cause(evidence, lease)


def _why_sent_late(evidence: Evidence, before: Received, after: Received) -> str | None:
    """Why the second request was sent although its sender had already lost the lease."""
    if not is_stale(evidence, after):
        return None
    if after.life in evidence.killed_ns:
        return SENT_BEFORE_KILL if before.life != after.life else None
    lease = evidence.lease_of.get(after.n)
    return lost_claim_cause(evidence, after) if lease is None else loss_cause(evidence, lease)


def _is_killed(evidence: Evidence, life: int, item: Received) -> bool:
    """Whether a process was killed before a request arrived.

    `killed_ns` is when the campaign noticed its end. Another daemon may notice it earlier, so the time at which the
    signal was sent decides, where the records have it.
    """
    killed_ns, killed_ms = evidence.killed_ns.get(life), evidence.killed_ms.get(life)
    if killed_ms is not None and killed_ms <= item.at_ms:
        return True
    return killed_ns is not None and killed_ns <= item.at_ns

"""The result of the campaign on one store."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import Any

from holdfast.proof.kills.checker import Verdict
from holdfast.proof.kills.disruptions import FAILOVER
from holdfast.proof.kills.evidence import Evidence


@dataclass(frozen=True)
class Report:
    evidence: Evidence
    verdict: Verdict
    seed: int
    duration_s: float

    @property
    def ok(self) -> bool:
        return not self.verdict.violations and not self.too_few_in_flight

    @property
    def too_few_in_flight(self) -> bool:
        """Fewer than half of the kills hit a daemon with work in flight: that would prove too little."""
        killed = self.evidence.killed
        return len(killed) >= 10 and 2 * sum(item.in_flight for item in killed) < len(killed)

    def restarts_s(self) -> list[float]:
        """Start of a life to its first delivery, for lives that were not disrupted before it and had work due."""
        due = {item.life + 1 for item in self.evidence.killed if item.due}
        firsts: dict[int, int] = {}
        for item in self.evidence.received:
            firsts[item.life] = min(item.at_ns, firsts.get(item.life, item.at_ns))
        waited = [life for life in self.evidence.started if life.waited and life.life in due and life.life in firsts]
        return [(firsts[life.life] - life.at_ns) / 1e9 for life in waited]

    def resumed_s(self, kind: str | None = None) -> list[float]:
        """From the end of each disruption that killed no daemon, or of one kind, to the next delivery by any daemon."""
        arrivals = sorted(item.at_ns for item in self.evidence.received)
        delays_s = []
        for disruption in self.evidence.disruptions:
            if kind is not None and disruption.kind != kind:
                continue
            index = bisect_right(arrivals, disruption.until_ns)
            if index < len(arrivals):
                delays_s.append((arrivals[index] - disruption.until_ns) / 1e9)
        return delays_s

    def as_dict(self) -> dict[str, Any]:
        evidence, verdict, restarts = self.evidence, self.verdict, self.restarts_s()
        holders, resumed, failovers = evidence.holders, self.resumed_s(), self.resumed_s(FAILOVER)
        return {
            "ok": self.ok,
            "seed": self.seed,
            "duration_seconds": round(self.duration_s, 1),
            "kills": len(evidence.killed),
            "kills_in_flight": sum(item.in_flight for item in evidence.killed),
            "kills_by_kind": dict(sorted(Counter(item.kind for item in evidence.killed).items())),
            "kills_while": dict(sorted(Counter(what for item in evidence.killed for what in item.doing).items())),
            "kills_by_place": dict(sorted(Counter(item.place for item in evidence.killed).items())),
            "kills_with_lease_held": sum(item.leases > 0 for item in evidence.killed),
            "accepted": len(evidence.accepted),
            "accepted_on_retry": sum(item.duplicate for item in evidence.accepted),
            "unknown": len(evidence.unknown),
            "deliveries": dict(sorted(verdict.states.items())),
            "dead_reasons": dict(Counter(str(r.reason) for r in evidence.store.deliveries if r.state == "dead")),
            "received": len(evidence.received),
            "sink_answers": dict(sorted(Counter(item.answer for item in evidence.answers.values()).items())),
            "duplicates_explained": dict(sorted(verdict.duplicates.explained.items())),
            "unexplained_duplicates": verdict.duplicates.unexplained,
            "disruptions": dict(sorted(Counter(item.kind for item in evidence.disruptions).items())),
            "stale_settles": verdict.count("stale"),
            "leases": dict(sorted(Counter(item.end for item in holders.leases).items())) if holders else None,
            "lost": verdict.count("lost"),
            "order_violations": verdict.count("order"),
            "violations": len(verdict.violations),
            "violations_by_promise": dict(sorted(Counter(item.promise for item in verdict.violations).items())),
            "restarts_measured": len(restarts),
            "restart_to_first_delivery_p50_seconds": round(median(restarts), 3) if restarts else None,
            "restart_to_first_delivery_max_seconds": round(max(restarts), 3) if restarts else None,
            "disruption_end_to_first_delivery_p50_seconds": round(median(resumed), 3) if resumed else None,
            "disruption_end_to_first_delivery_max_seconds": round(max(resumed), 3) if resumed else None,
            "failover_to_first_delivery_max_seconds": round(max(failovers), 3) if failovers else None,
            "receipts_verified": verdict.links,
            "transitions_verified": verdict.transitions,
        }

    def violations(self) -> list[str]:
        """One line per violation."""
        lines = [f"{item.promise}: {item.subject}: {item.detail}" for item in self.verdict.violations]
        if self.too_few_in_flight:
            lines.append("campaign: fewer than half of the kills hit a daemon with work in flight")
        return lines


def listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"

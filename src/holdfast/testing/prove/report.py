"""What a campaign found, for people and for programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import Any

from holdfast.testing.prove.checker import Verdict
from holdfast.testing.prove.evidence import Evidence

SHOWN_MAX = 20


@dataclass(frozen=True)
class Report:
    evidence: Evidence
    verdict: Verdict
    seed: int
    duration_s: float

    @property
    def ok(self) -> bool:
        return not self.verdict.violations and not self.too_tame

    @property
    def too_tame(self) -> bool:
        """Fewer than half of the kills struck while something was in flight: that would prove too little."""
        killed = self.evidence.killed
        return len(killed) >= 10 and 2 * sum(item.in_flight for item in killed) < len(killed)

    def restarts_s(self) -> list[float]:
        """Start of a life to its first delivery, of the lives that were left alone until then and had work due."""
        due = {item.life + 1 for item in self.evidence.killed if item.due}
        firsts: dict[int, int] = {}
        for item in self.evidence.received:
            firsts[item.life] = min(item.at_ns, firsts.get(item.life, item.at_ns))
        waited = [life for life in self.evidence.started if life.waited and life.life in due and life.life in firsts]
        return [(firsts[life.life] - life.at_ns) / 1e9 for life in waited]

    def as_dict(self) -> dict[str, Any]:
        evidence, verdict, restarts = self.evidence, self.verdict, self.restarts_s()
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
            "answers_lost_and_found": sum(item.duplicate for item in evidence.accepted),
            "unknown": len(evidence.unknown),
            "deliveries": dict(sorted(verdict.states.items())),
            "dead_reasons": dict(Counter(str(r.reason) for r in evidence.store.deliveries if r.state == "dead")),
            "received": len(evidence.received),
            "sink_answers": dict(sorted(Counter(item.answer for item in evidence.answers.values()).items())),
            "duplicates_explained": dict(sorted(verdict.duplicates.explained.items())),
            "unexplained_duplicates": verdict.duplicates.unexplained,
            "lost": verdict.count("lost"),
            "order_violations": verdict.count("order"),
            "violations": len(verdict.violations),
            "violations_by_promise": dict(sorted(Counter(item.promise for item in verdict.violations).items())),
            "restarts_measured": len(restarts),
            "restart_to_first_delivery_p50_seconds": round(median(restarts), 3) if restarts else None,
            "restart_to_first_delivery_max_seconds": round(max(restarts), 3) if restarts else None,
            "receipts_verified": verdict.links,
            "transitions_verified": verdict.transitions,
        }

    def table(self) -> str:
        facts = self.as_dict()
        p50, worst = (facts[f"restart_to_first_delivery_{name}_seconds"] for name in ("p50", "max"))
        rows = [
            ("kills", f"{facts['kills']}, {facts['kills_in_flight']} of them in flight"),
            ("  kind", _listed(facts["kills_by_kind"])),
            ("  place", _listed(facts["kills_by_place"])),
            ("  while", _listed(facts["kills_while"])),
            ("  lease held at", f"{facts['kills_with_lease_held']} of them"),
            ("accepted", f"{facts['accepted']}, {facts['answers_lost_and_found']} after a lost answer; "
                         f"{facts['unknown']} of unknown fate"),
            ("deliveries", _listed(facts["deliveries"]) + _in_brackets(facts["dead_reasons"])),
            ("received", f"{facts['received']} requests; the sink answered {_listed(facts['sink_answers'])}"),
            ("duplicates explained", _listed(facts["duplicates_explained"])),
            ("duplicates unexplained", facts["unexplained_duplicates"]),
            ("lost", facts["lost"]),
            ("order violations", facts["order_violations"]),
            ("other violations", facts["violations"] - facts["lost"] - facts["order_violations"]
                                 - facts["unexplained_duplicates"]),
            ("restart → first delivery", f"p50 {p50} s, max {worst} s, of {facts['restarts_measured']} restarts"),
            ("receipts verified", f"{facts['receipts_verified']} links, {facts['transitions_verified']} transitions"),
            ("seed", facts["seed"]),
            ("duration", f"{facts['duration_seconds']} s"),
        ]  # fmt: skip
        return "\n".join(f"  {name:<25} {value}" for name, value in rows)

    def violations(self) -> str:
        """What happened, a bounded number of lines of it."""
        lines = [f"  {item.promise}: {item.subject}: {item.detail}" for item in self.verdict.violations[:SHOWN_MAX]]
        if self.too_tame:
            lines.append("  the campaign: fewer than half of its kills struck while something was in flight")
        more = len(self.verdict.violations) - SHOWN_MAX
        return "\n".join([*lines, f"  and {more} more"] if more > 0 else lines)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _in_brackets(counts: dict[str, int]) -> str:
    return f" ({_listed(counts)})" if counts else ""

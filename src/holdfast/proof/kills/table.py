"""The result of the proof: a table for people, a JSON object for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from holdfast.proof.kills.disruptions import FAILOVER
from holdfast.proof.kills.parallel import Schedules, bounded
from holdfast.proof.kills.records import BLOCKED
from holdfast.proof.kills.report import Report, listed
from holdfast.proof.messages.campaign import MessageReport
from holdfast.proof.power_cuts.campaign import Tally
from holdfast.proof.streams.judge import Campaign

if TYPE_CHECKING:
    from holdfast.proof.kills.writers import Writing


@dataclass
class Proof:
    """The results of the parts; None: not requested, or not possible (`skipped` gives the reason)."""

    seed: int
    schedules: Schedules = field(default_factory=Schedules)
    mutants: dict[str, int | None] = field(default_factory=dict)
    disk: Tally = field(default_factory=Tally)
    sqlite: Report | None = None
    postgres: Report | None = None
    writing: Writing | None = None
    publishing: Campaign | None = None
    cluster: Campaign | None = None
    messages: dict[str, MessageReport] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    duration_s: float = 0.0

    @property
    def reports(self) -> list[Report]:
        return [report for report in (self.sqlite, self.postgres) if report is not None]

    @property
    def campaigns(self) -> list[Campaign]:
        return [campaign for campaign in (self.publishing, self.cluster) if campaign is not None]

    @property
    def violations(self) -> list[str]:
        """One line for each broken promise, with the command that repeats it."""
        return bounded(self._violations())

    @property
    def ok(self) -> bool:
        return not self.violations

    def as_dict(self) -> dict[str, Any]:
        restarts = [seconds for report in self.reports for seconds in report.restarts_s()]
        failovers = [seconds for report in self.reports for seconds in report.resumed_s(FAILOVER)]
        parts = {"sqlite": self.sqlite, "postgresql": self.postgres}
        return {
            "ok": self.ok,
            "seed": self.seed,
            "duration_seconds": round(self.duration_s, 1),
            "schedules": self.schedules.count,
            "faults_by_kind": dict(sorted(self.schedules.faults.items())),
            "mutants": len(self.mutants),
            "mutants_killed": sum(seed is not None for seed in self.mutants.values()),
            "images": self.disk.images,
            "kills": sum(self.kills_by_kind.values()),
            "kills_by_kind": self.kills_by_kind,
            "kills_while": dict(sorted(self._doing().items())),
            "lost": self._count("lost") + self.disk.faulty,
            "order_violations": self._count("order"),
            "unexplained_duplicates": self._count("duplicate"),
            "duplicates_explained": dict(sorted(self._explained().items())),
            "stale_settles": self._count("stale", "fence"),
            "receipt_faults": self._count("receipts"),
            "violations": self.violations,
            "restart_to_first_delivery_p50_seconds": round(median(restarts), 3) if restarts else None,
            "restart_to_first_delivery_max_seconds": round(max(restarts), 3) if restarts else None,
            "failover_to_first_delivery_max_seconds": None if not failovers else round(max(failovers), 3),
            "writers": None if self.writing is None else self._writers(self.writing),
            "publishing": None if self.publishing is None else _publishing(self.publishing),
            "cluster": None if self.cluster is None else _publishing(self.cluster),
            "messages": {name: _messages(report) for name, report in self.messages.items()},
            "parts": {name: report.as_dict() for name, report in parts.items() if report is not None},
            "skipped": self.skipped,
        }

    @property
    def kills_by_kind(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        if self.sqlite is not None:
            found["daemon killed, SQLite"] = len(self.sqlite.evidence.killed)
        if self.postgres is not None:
            found["daemon killed, PostgreSQL"] = len(self.postgres.evidence.killed)
            found.update(item.kind for item in self.postgres.evidence.disruptions if item.kind != BLOCKED)
        for campaign in self.campaigns:
            found.update({f"{kind} killed, publishing": count for kind, count in campaign.kills.items()})
        for report in self.messages.values():
            found.update(report.kills)
        return dict(found)

    def table(self) -> str:
        facts = self.as_dict()
        p50, longest = (facts[f"restart_to_first_delivery_{name}_seconds"] for name in ("p50", "max"))
        rows = [
            ("schedules", f"{facts['schedules']} simulated, {self.schedules.faults.total()} faults injected"),
            *((f"  {kind}", count) for kind, count in facts["faults_by_kind"].items()),
            ("mutants killed", f"{facts['mutants_killed']} of {facts['mutants']}" if self.mutants else "not run"),
            ("power-cut images", _images(self.disk)),
            ("kills", facts["kills"]),
            *((f"  {kind}", count) for kind, count in self.kills_by_kind.items()),
            ("  daemon was", listed(facts["kills_while"])),
            *((f"accepted, {name}", _load(part)) for name, part in facts["parts"].items()),
            ("writers", _writers_line(facts["writers"])),
            ("publishing, Redis and NATS", _publishing_line(facts["publishing"])),
            ("publishing, JetStream cluster", _publishing_line(facts["cluster"])),
            *((f"messages, {name}", listed(part)) for name, part in facts["messages"].items()),
            ("lost", facts["lost"]),
            ("order violations", facts["order_violations"]),
            ("duplicates explained", listed(facts["duplicates_explained"])),
            ("duplicates unexplained", facts["unexplained_duplicates"]),
            ("stale settles", facts["stale_settles"]),
            ("receipt faults", facts["receipt_faults"]),
            ("violations in total", len(facts["violations"])),
            ("restart → first delivery", "not measured" if p50 is None else f"p50 {p50} s, max {longest} s"),
            ("failover → first delivery", _at_most(facts["failover_to_first_delivery_max_seconds"])),
            ("seed", facts["seed"]),
            ("duration", f"{facts['duration_seconds']} s"),
        ]  # fmt: skip
        return "\n".join(f"  {name:<34} {value}" for name, value in rows)

    def _violations(self) -> Iterator[str]:
        for seed, promise, detail in self.schedules.broken:
            yield f"{promise}: {detail} (python -m holdfast.proof.simulation --seed {seed} --trace)"
        for name, seed_or_none in self.mutants.items():
            if seed_or_none is None:
                yield f"mutants: the simulation did not detect the known bug {name}"
        for fault in self.disk.faults:
            yield f"lost: {fault}"
        for report in self.reports:
            yield from report.violations()
        for campaign in self.campaigns:
            yield from campaign.violations
        for violation in () if self.writing is None else self.writing.violations:
            yield f"{violation.promise}: {violation.subject}: {violation.detail}"
        for report_of_messages in self.messages.values():
            yield from report_of_messages.violations

    def _count(self, *promises: str) -> int:
        found = sum(report.verdict.count(*promises) for report in self.reports)
        found += sum(promise in promises for _, promise, _ in self.schedules.broken)
        lines = [line for campaign in self.campaigns for line in campaign.violations]
        found += sum(line.partition(":")[0] in promises for line in lines)
        found += sum(report.count(*promises) for report in self.messages.values())
        return found + sum(item.promise in promises for item in (self.writing.violations if self.writing else ()))

    def _doing(self) -> Counter[str]:
        return Counter(what for report in self.reports for kill in report.evidence.killed for what in kill.doing)

    def _explained(self) -> Counter[str]:
        return sum((report.verdict.duplicates.explained for report in self.reports), Counter())

    def _writers(self, writing: Writing) -> dict[str, int]:
        return {
            "transactions": writing.transactions, "rolled_back": writing.rolled_back, "long": writing.long,
            "deadlocks": writing.deadlocks, "events": writing.events, "violations": len(writing.violations),
        }  # fmt: skip


def _publishing(campaign: Campaign) -> dict[str, Any]:
    longest = max(campaign.pauses_s, default=None)
    return {
        "kills": sum(campaign.kills.values()), "events": campaign.events, "repeats": campaign.repeats,
        "resume_max_seconds": None if longest is None else round(longest, 1), "violations": len(campaign.violations),
    }  # fmt: skip


def _publishing_line(facts: dict[str, Any] | None) -> str:
    if facts is None:
        return "not run"
    resumed = "" if facts["resume_max_seconds"] is None else f", resumed after at most {facts['resume_max_seconds']} s"
    return f"{facts['events']} events, {facts['kills']} kills, {facts['repeats']} repeats{resumed}"


def _messages(report: MessageReport) -> dict[str, int]:
    return {"sent": report.messages, "delivered": report.delivered, "unconfirmed": report.unconfirmed}


def _at_most(seconds: float | None) -> str:
    return "not measured" if seconds is None else f"max {seconds} s"


def _images(disk: Tally) -> str:
    return f"{disk.images} checked, {disk.faulty} faulty" if disk.images else "not run"


def _load(part: dict[str, Any]) -> str:
    ends = listed(part["deliveries"])
    return f"{part['accepted']} events, {part['unknown']} of unknown outcome; {part['received']} requests; {ends}"


def _writers_line(writers: dict[str, int] | None) -> str:
    if writers is None:
        return "not run"
    return (
        f"{writers['transactions']} transactions, {writers['rolled_back']} rolled back, {writers['long']} long, "
        f"{writers['events']} events, {writers['deadlocks']} deadlocks"
    )

"""The goals, and how each is computed from the figures. Missed goals are explained by hand in `why.txt`.

A goal is about the whole path that a user sees, or (`part=True`) about a part of it in isolation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import Results
from benchmarks.tables import amount

PYTHON_PEERS = ("pgqueuer", "faststream-outbox", "oban", "procrastinate", "dbos")
WHY = Path(__file__).with_name("why.txt")


@dataclass(frozen=True)
class Goal:
    id: str
    what: str
    bound: float
    unit: str
    at_least: bool
    read: Callable[[Results], float | None]
    part: bool = False

    @property
    def bound_text(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.shown(self.bound)}"

    def shown(self, value: float) -> str:
        return f"{amount(value)} {self.unit}"

    def met(self, results: Results) -> bool | None:
        """Whether the goal is met; None if it was not measured."""
        value = self.read(results)
        if value is None:
            return None
        return value >= self.bound if self.at_least else value <= self.bound

    def ratio(self, results: Results) -> float | None:
        """The figure relative to the goal: 1 or more means met, for upper and lower bounds alike."""
        value = self.read(results)
        if value is None or value <= 0 or self.bound <= 0:
            return None
        return value / self.bound if self.at_least else self.bound / value


def goals() -> list[Goal]:
    return [*_sqlite(), *_postgres(), *_latency(), *_restart(), *_agents(), *outward(), *_soak(), *_later()]


def _sqlite() -> list[Goal]:
    one, bare = "sqlite.accept.holdfast, 1 caller", "sqlite.accept.bare commits"
    return [
        Goal("P2 one", "SQLite: accept, 1 caller, relative to bare commits", 0.7, "×", True, ratio(one, bare)),
        Goal("P2 huey", "SQLite: accept, 1 caller, relative to huey", 1.0, "×", True, ratio(one, "sqlite.accept.huey")),
        Goal("P2 persist-queue", "SQLite: accept, 1 caller, relative to persist-queue", 1.0, "×", True,
             ratio(one, "sqlite.accept.persist-queue")),
        Goal("P2 many", "SQLite: accept, 64 callers, relative to bare commits", 8.0, "×", True,
             ratio("sqlite.accept.holdfast, 64 callers", bare)),
        Goal("P3 drain", "SQLite: drain to a no-op handler", 40_000, "/s", True, median("sqlite.drain.holdfast"),
             part=True),
        Goal("P3 whole", "SQLite: accepted to settled, sustained", 18_000, "/s", True, median("sqlite.whole.holdfast")),
        Goal("P3 backlog", "SQLite: slowdown of the drain from the smallest to the largest backlog", 20, "%", False,
             growth("backlog.sqlite.", ".drain", rising_is_worse=False), part=True),
    ]  # fmt: skip


def _postgres() -> list[Goal]:
    drain = "pg.drain.holdfast"
    return [
        Goal("P5 whole", "PostgreSQL: published to settled, relative to pgqueuer", 2.0, "×", True,
             ratio("pg.drain.holdfast, routed on the way", "pg.drain.pgqueuer")),
        Goal("P5 pgqueuer", "PostgreSQL: drain, relative to pgqueuer", 2.0, "×", True,
             ratio(drain, "pg.drain.pgqueuer"), part=True),
        Goal("P5 pgmq", "PostgreSQL: drain, relative to bare pgmq", 0.9, "×", True, ratio(drain, "pg.drain.pgmq"),
             part=True),
        Goal("pgmq queue", "PostgreSQL, queue in pgmq: drain, relative to bare pgmq", 0.67, "×", True,
             ratio("pg.drain.holdfast, queue in pgmq", "pg.drain.pgmq"), part=True),
        Goal("P5 single", "PostgreSQL: enqueue one, relative to the best Python peer", 1.0, "×", True,
             best("pg.single")),
        Goal("P5 batch", "PostgreSQL: enqueue 1,000, relative to the best Python peer", 1.0, "×", True,
             best("pg.batch")),
        Goal("claim", "PostgreSQL: slowdown of a claim from the smallest to the largest backlog", 20, "%", False,
             growth("claim.postgres.", "", rising_is_worse=True), part=True),
        *(Goal(f"publish {driver}", f"publish adds to a transaction ({driver})", 0.3, "ms", False,
               median(f"publish.{driver}.adds")) for driver in ("psycopg", "asyncpg", "sqlite3")),
    ]  # fmt: skip


def _latency() -> list[Goal]:
    made = []
    for store, shown in (("sqlite", "SQLite"), ("postgres", "PostgreSQL")):
        for way in ("in process", "REST", "another process"):
            for part, bound in (("p50", 5.0), ("p99", 25.0)):
                what = f"{shown}: commit to handler, {way}, {part}"
                read = median(f"latency.{store}.{way}.{part}")
                made.append(Goal(f"P6 {store} {way} {part}", what, bound, "ms", False, read))
    return made


def _restart() -> list[Goal]:
    return [
        Goal(f"P10 {store}", f"{shown}: first delivery after a start with a backlog", 1.0, "s", False,
             median(f"restart.{store}"))
        for store, shown in (("sqlite", "SQLite"), ("postgres", "PostgreSQL"))
    ]  # fmt: skip


def _agents() -> list[Goal]:
    made = []
    for state in ("up", "down", "busy"):
        for form, shown, bare, bound in (("python", "in Python", "bare", 1.3), ("fast", "fast path", "true", 4.0)):
            of, label = f"receiver.{state}.{form}", f"receiver, {shown}, daemon {state}"
            beside = "/bin/true" if bare == "true" else "a bare interpreter"
            made += [
                Goal(f"P1 {form} {state}", f"{label}: p50, relative to {beside}", bound, "×", False,
                     ratio(f"{of}.p50", f"receiver.{state}.{bare}.p50")),
                Goal(f"P1 {form} {state} tail", f"{label}: p99 relative to p50", 3.0, "×", False,
                     ratio(f"{of}.p99", f"{of}.p50")),
            ]  # fmt: skip
    return [
        *made,
        Goal("P1 crowd", "many receivers in Python at once, relative to as many bare interpreters", 1.5, "×", False,
             ratio("receiver.crowd.python", "receiver.crowd.bare")),
        Goal("hooks p50", "receiver's exit to session row, p50", 20, "ms", False, median("hooks.alone.p50")),
        Goal("hooks noise", "exit to session row beside a noisy session, p99, relative to p99 alone", 2.0, "×",
             False, ratio("hooks.beside noise.p99", "hooks.alone.p99")),
    ]  # fmt: skip


def outward() -> list[Goal]:
    others = "webhooks.p99 of others, "
    return [
        Goal("P4", "outgoing webhooks: signed, 1 KB, 64 at a time, relative to our own client alone", 0.6, "×", True,
             ratio("webhooks.holdfast", "webhooks.own client, bare"), part=True),
        Goal("P4 aiohttp", "outgoing webhooks: signed, 1 KB, 64 at a time, relative to bare aiohttp", 0.6, "×", True,
             ratio("webhooks.holdfast", "webhooks.bare client"), part=True),
        Goal("P4 rate", "outgoing webhooks: signed, 1 KB, 64 at a time", 9_000, "/s", True,
             median("webhooks.holdfast"), part=True),
        Goal("hanging", "outgoing webhooks: p99 of 99 receivers while one hangs, relative to none hanging", 1.5, "×",
             False, ratio(f"{others}one hangs", f"{others}all well")),
        *(goal for name, shown in (("events", "POST /api/events"), ("webhooks", "signed webhooks")) for goal in (
            Goal(f"P11 {name} one", f"{shown}: 1 KB, durable, one kept-alive connection, p50", 2.0, "ms", False,
                 median(f"http.{name}, 1 connection, p50")),
            Goal(f"P11 {name} many", f"{shown}: 64 connections, relative to bare Starlette that stores nothing", 0.5,
                 "×", True, ratio(f"http.{name}, 64 connections", "http.bare Starlette, 64 connections")),
        )),
        *(goal for store, shown in (("sqlite", "SQLite"), ("postgres", "PostgreSQL")) for goal in (
            Goal(f"P12 {store} processor", f"idle daemon on {shown}: CPU", 0.3, "%", False,
                 median(f"idle.{store}.processor")),
            Goal(f"P12 {store} wake-ups", f"idle daemon on {shown}: wake-ups", 5.0, "/s", False,
                 median(f"idle.{store}.wake-ups")),
            Goal(f"P12 {store} memory", f"idle daemon on {shown}: memory", 60.0, "MB", False,
                 median(f"idle.{store}.memory")),
        )),
        Goal("P13 time", "web page: slowest screen, 5 million events stored", 150, "ms", False,
             median("web.first page")),
        Goal("P13 bytes", "web page: transferred for the largest screen", 60, "kB", False, median("web.transferred")),
        Goal("P8 tails", "live: append to client, 1,000 clients on one stream at 10 events/s, p99", 200.0, "ms", False,
             median("tails.1000.p99")),
        Goal("P7", "matching: largest growth of cost from the fewest to the most contracts", 2.0, "×", False,
             most("matching.", ".grows"), part=True),
    ]  # fmt: skip


def _soak() -> list[Goal]:
    return [
        Goal(f"soak {store} memory", f"soak on {shown}: growth of memory", 10, "%", False,
             median(f"soak.{store}.memory.growth"))
        for store, shown in (("sqlite", "SQLite"), ("postgres", "PostgreSQL"))
    ]  # fmt: skip


def _later() -> list[Goal]:
    """Goals of parts that have no measurement yet; they are listed, so that the page does not hide them."""
    return [
        Goal("P8 redis", "publish to Redis Streams, order kept, synced every second", 20_000, "/s", True,
             median("sinks.redis")),
        Goal("P8 jetstream", "publish to JetStream, order kept, with acks", 5_000, "/s", True,
             median("sinks.jetstream")),
        Goal("P9 settle", "receipts: what they add to a settle", 30, "%", False, median("receipts.adds"), part=True),
        Goal("P9 verify", "receipts: verified", 200_000, "/s", True, median("receipts.verify")),
        Goal("P14", "message accepted to pasted into an idle session, p50", 150, "ms", False, median("messages.p50")),
    ]  # fmt: skip


def most(prefix: str, suffix: str) -> Callable[[Results], float | None]:
    """The largest median of the figures with this prefix and suffix."""
    return lambda results: max(
        (
            figure.median
            for name, figure in results.figures.items()
            if name.startswith(prefix) and name.endswith(suffix)
        ),
        default=None,
    )


def median(name: str) -> Callable[[Results], float | None]:
    return lambda results: results.median(name)


def ratio(ours: str, other: str) -> Callable[[Results], float | None]:
    def read(results: Results) -> float | None:
        first, second = results.median(ours), results.median(other)
        return first / second if first is not None and second else None

    return read


def best(work: str) -> Callable[[Results], float | None]:
    """Holdfast relative to the fastest Python peer that was measured."""

    def read(results: Results) -> float | None:
        ours = results.median(f"{work}.holdfast")
        others = [value for peer in PYTHON_PEERS if (value := results.median(f"{work}.{peer}"))]
        return ours / max(others) if ours is not None and others else None

    return read


def growth(prefix: str, suffix: str, *, rising_is_worse: bool) -> Callable[[Results], float | None]:
    def read(results: Results) -> float | None:
        values = [figure for _, figure in series(results, prefix, suffix)]
        return worsening(values, rising_is_worse=rising_is_worse) if len(values) > 1 else None

    return read


def series(results: Results, prefix: str, suffix: str) -> list[tuple[int, float]]:
    """Medians by size, for names like `claim.postgres.10000`."""
    found = []
    for name, figure in results.figures.items():
        if name.startswith(prefix) and name.endswith(suffix):
            size = name[len(prefix) : len(name) - len(suffix)]
            if size.isdigit():
                found.append((int(size), figure.median))
    return sorted(found)


def worsening(values: Sequence[float], *, rising_is_worse: bool) -> float:
    """How much worse the worst of the other values is than the first, in percent; 0 if none is worse.

    >>> worsening([100.0, 90.0, 80.0], rising_is_worse=False), worsening([2.0, 1.0, 3.0], rising_is_worse=True)
    (20.0, 50.0)
    >>> worsening([100.0, 120.0], rising_is_worse=False)
    0.0
    """
    first, others = values[0], values[1:]
    worst = max(others) / first - 1 if rising_is_worse else 1 - min(others) / first
    return max(0.0, round(worst * 100, 6))


@dataclass
class Explanation:
    """Why a goal is missed, which limit stands in the way, and what was tried with what it brought."""

    why: str = ""
    limit: str = ""
    tried: list[str] = field(default_factory=list)


def explanations(text: str | None = None) -> dict[str, Explanation]:
    """The hand-written explanations, one per line: `goal id: why`, `goal id, limit: …`, `goal id, tried: …`.

    >>> explanations("P5 pgmq: one core: it is busy\\nP5 pgmq, tried: larger batches; no change")["P5 pgmq"]
    Explanation(why='one core: it is busy', limit='', tried=['larger batches; no change'])
    """
    found: dict[str, Explanation] = {}
    for line in (WHY.read_text(encoding="utf-8") if text is None else text).splitlines():
        head, colon, sentence = line.partition(": ")
        if not colon or line.startswith("#"):
            continue
        id, _, kind = head.strip().partition(", ")
        known = found.setdefault(id, Explanation())
        match kind:
            case "":
                known.why = sentence.strip()
            case "limit":
                known.limit = sentence.strip()
            case "tried":
                known.tried.append(sentence.strip())
            case _:
                raise ValueError(f"{WHY.name}: {head!r} is not a goal id, or one with `, limit` or `, tried`")
    return found

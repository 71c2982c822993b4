"""The goals, and how each is computed from the figures. Missed goals are explained by hand in `why.txt`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Results

PYTHON_PEERS = ("pgqueuer", "faststream-outbox", "oban", "procrastinate", "dbos")
POLL_MS = 20.0
WHY = Path(__file__).with_name("why.txt")


@dataclass(frozen=True)
class Goal:
    id: str
    what: str
    bound: float
    unit: str
    at_least: bool
    read: Callable[[Results], float | None]

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
    return [*_sqlite(), *_postgres(), *_latency(), *_restart(), *_agents(), *outward()]


def _sqlite() -> list[Goal]:
    one, bare = "sqlite.accept.holdfast, 1 caller", "sqlite.accept.bare commits"
    return [
        Goal("P2 one", "SQLite: accept, 1 caller, relative to bare commits", 0.7, "×", True, ratio(one, bare)),
        Goal("P2 huey", "SQLite: accept, 1 caller, relative to huey", 1.0, "×", True, ratio(one, "sqlite.accept.huey")),
        Goal("P2 persist-queue", "SQLite: accept, 1 caller, relative to persist-queue", 1.0, "×", True,
             ratio(one, "sqlite.accept.persist-queue")),
        Goal("P2 many", "SQLite: accept, 64 callers, relative to bare commits", 5.0, "×", True,
             ratio("sqlite.accept.holdfast, 64 callers", bare)),
        Goal("P3 drain", "SQLite: drain to a no-op handler", 25_000, "/s", True, median("sqlite.drain.holdfast")),
        Goal("P3 whole", "SQLite: accepted to settled, sustained", 10_000, "/s", True, median("sqlite.whole.holdfast")),
        Goal("P3 backlog", "SQLite: slowdown of the drain from the smallest to the largest backlog", 20, "%", False,
             growth("backlog.sqlite.", ".drain", rising_is_worse=False)),
    ]  # fmt: skip


def _postgres() -> list[Goal]:
    drain = "pg.drain.holdfast"
    return [
        Goal("P5 pgqueuer", "PostgreSQL: drain, relative to pgqueuer", 2.0, "×", True,
             ratio(drain, "pg.drain.pgqueuer")),
        Goal("P5 pgmq", "PostgreSQL: drain, relative to bare pgmq", 0.6, "×", True, ratio(drain, "pg.drain.pgmq")),
        Goal("P5 single", "PostgreSQL: enqueue one, relative to the best Python peer", 1.0, "×", True,
             best("pg.single")),
        Goal("P5 batch", "PostgreSQL: enqueue 1,000, relative to the best Python peer", 1.0, "×", True,
             best("pg.batch")),
        Goal("claim", "PostgreSQL: slowdown of a claim from the smallest to the largest backlog", 20, "%", False,
             growth("claim.postgres.", "", rising_is_worse=True)),
        *(Goal(f"publish {driver}", f"publish adds to a transaction ({driver})", 0.3, "ms", False,
               median(f"publish.{driver}.adds")) for driver in ("psycopg", "asyncpg", "sqlite3")),
    ]  # fmt: skip


def _latency() -> list[Goal]:
    made = []
    for store, shown in (("sqlite", "SQLite"), ("postgres", "PostgreSQL")):
        for way in ("in process", "REST", "another process"):
            more = POLL_MS if way == "another process" else 0.0  # polling may add its interval there
            for part, bound in (("p50", 5.0), ("p99", 25.0)):
                what = f"{shown}: commit to handler, {way}, {part}"
                read = median(f"latency.{store}.{way}.{part}")
                made.append(Goal(f"P6 {store} {way} {part}", what, bound + more, "ms", False, read))
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
        for form, shown, bare, bound in (("python", "in Python", "bare", 1.3), ("fast", "fast path", "true", 6.0)):
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
        Goal("P4", "outgoing webhooks: signed, 1 KB, 64 at a time, relative to bare aiohttp", 0.6, "×", True,
             ratio("webhooks.holdfast", "webhooks.bare client")),
        Goal("P4 rate", "outgoing webhooks: signed, 1 KB, 64 at a time", 3_000, "/s", True,
             median("webhooks.holdfast")),
        Goal("hanging", "outgoing webhooks: p99 of 99 receivers while one hangs, relative to none hanging", 1.5, "×",
             False, ratio(f"{others}one hangs", f"{others}all well")),
        *(goal for name, shown in (("events", "POST /api/events"), ("webhooks", "signed webhooks")) for goal in (
            Goal(f"P11 {name} one", f"{shown}: 1 KB, durable, one kept-alive connection, p50", 2.0, "ms", False,
                 median(f"http.{name}, 1 connection, p50")),
            Goal(f"P11 {name} many", f"{shown}: 64 connections, relative to bare Starlette that stores nothing", 0.5,
                 "×", True, ratio(f"http.{name}, 64 connections", "http.bare Starlette, 64 connections")),
        )),
        Goal("P12 processor", "idle daemon on SQLite: CPU", 0.3, "%", False, median("idle.sqlite.processor")),
        Goal("P12 wake-ups", "idle daemon on SQLite: wake-ups", 5.0, "/s", False, median("idle.sqlite.wake-ups")),
        Goal("P12 memory", "idle daemon on SQLite: memory", 60.0, "MB", False, median("idle.sqlite.memory")),
        Goal("P7", "matching: largest growth of cost from the fewest to the most contracts", 2.0, "×", False,
             most("matching.", ".grows")),
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


def explanations(text: str | None = None) -> dict[str, str]:
    """The hand-written explanations, one per line: `goal id: sentence`. Lines starting with # are comments."""
    found = {}
    for line in (WHY.read_text(encoding="utf-8") if text is None else text).splitlines():
        id, colon, sentence = line.partition(": ")
        if colon and not line.startswith("#"):
            found[id.strip()] = sentence.strip()
    return found

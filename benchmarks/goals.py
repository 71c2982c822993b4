"""The goals, each with how it is read off the figures. What is missed is explained by hand, in `why.txt`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Book

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
    read: Callable[[Book], float | None]

    def met(self, book: Book) -> bool | None:
        """None: it was not measured."""
        value = self.read(book)
        if value is None:
            return None
        return value >= self.bound if self.at_least else value <= self.bound

    def ratio(self, book: Book) -> float | None:
        """How it stands to the goal: 1 and more is good, whichever way the goal points."""
        value = self.read(book)
        if value is None or value <= 0 or self.bound <= 0:
            return None
        return value / self.bound if self.at_least else self.bound / value


def goals() -> list[Goal]:
    return [*_sqlite(), *_postgres(), *_latency(), *_restart(), *_agents(), *outward()]


def _sqlite() -> list[Goal]:
    one, bare = "sqlite.accept.holdfast, 1 caller", "sqlite.accept.bare commits"
    return [
        Goal("P2 one", "SQLite: accept, 1 caller, to bare commits", 0.7, "×", True, ratio(one, bare)),
        Goal("P2 huey", "SQLite: accept, 1 caller, to huey", 1.0, "×", True, ratio(one, "sqlite.accept.huey")),
        Goal("P2 persist-queue", "SQLite: accept, 1 caller, to persist-queue", 1.0, "×", True,
             ratio(one, "sqlite.accept.persist-queue")),
        Goal("P2 many", "SQLite: accept, 64 callers, to bare commits", 5.0, "×", True,
             ratio("sqlite.accept.holdfast, 64 callers", bare)),
        Goal("P3 drain", "SQLite: drain to a no-op handler", 25_000, "/s", True, median("sqlite.drain.holdfast")),
        Goal("P3 whole", "SQLite: accepted to settled, sustained", 10_000, "/s", True, median("sqlite.whole.holdfast")),
        Goal("P3 backlog", "SQLite: drain slower at the largest backlog than at the smallest", 20, "%", False,
             growth("backlog.sqlite.", ".drain", rising_is_worse=False)),
    ]  # fmt: skip


def _postgres() -> list[Goal]:
    drain = "pg.drain.holdfast"
    return [
        Goal("P5 pgqueuer", "PostgreSQL: drain, to pgqueuer", 2.0, "×", True, ratio(drain, "pg.drain.pgqueuer")),
        Goal("P5 pgmq", "PostgreSQL: drain, to bare pgmq", 0.6, "×", True, ratio(drain, "pg.drain.pgmq")),
        Goal("P5 single", "PostgreSQL: enqueue one, to the best Python peer", 1.0, "×", True, best("pg.single")),
        Goal("P5 batch", "PostgreSQL: enqueue 1,000, to the best Python peer", 1.0, "×", True, best("pg.batch")),
        Goal("claim", "PostgreSQL: a claim dearer at the largest backlog than at the smallest", 20, "%", False,
             growth("claim.postgres.", "", rising_is_worse=True)),
        *(Goal(f"publish {driver}", f"publish adds to a transaction ({driver})", 0.3, "ms", False,
               median(f"publish.{driver}.adds")) for driver in ("psycopg", "asyncpg", "sqlite3")),
    ]  # fmt: skip


def _latency() -> list[Goal]:
    made = []
    for store, shown in (("sqlite", "SQLite"), ("postgres", "PostgreSQL")):
        for way in ("in process", "REST", "another process"):
            more = POLL_MS if way == "another process" else 0.0  # there the poll may add its own
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
            of, told = f"receiver.{state}.{form}", f"receiver, {shown}, daemon {state}"
            beside = "/bin/true" if bare == "true" else "a bare interpreter"
            made += [
                Goal(f"P1 {form} {state}", f"{told}: p50, to {beside}", bound, "×", False,
                     ratio(f"{of}.p50", f"receiver.{state}.{bare}.p50")),
                Goal(f"P1 {form} {state} tail", f"{told}: p99 to p50", 3.0, "×", False,
                     ratio(f"{of}.p99", f"{of}.p50")),
            ]  # fmt: skip
    return [
        *made,
        Goal("P1 crowd", "receivers in Python at once, to as many bare interpreters", 1.5, "×", False,
             ratio("receiver.crowd.python", "receiver.crowd.bare")),
        Goal("hooks p50", "receiver's exit to session row, p50", 20, "ms", False, median("hooks.alone.p50")),
        Goal("hooks noise", "the same beside a noisy session, p99, to p99 alone", 2.0, "×", False,
             ratio("hooks.beside noise.p99", "hooks.alone.p99")),
    ]  # fmt: skip


def outward() -> list[Goal]:
    others = "webhooks.p99 of others, "
    return [
        Goal("P4", "webhooks out: signed, 1 KB, 64 at a time, to bare aiohttp", 0.6, "×", True,
             ratio("webhooks.holdfast", "webhooks.bare client")),
        Goal("P4 rate", "webhooks out: the same", 3_000, "/s", True, median("webhooks.holdfast")),
        Goal("hanging", "webhooks out: p99 of 99 receivers while one hangs, to when none does", 1.5, "×", False,
             ratio(f"{others}one hangs", f"{others}all well")),
        *(goal for name, shown in (("events", "POST /api/events"), ("webhooks", "signed webhooks in")) for goal in (
            Goal(f"P11 {name} one", f"{shown}: 1 KB, durable, one kept connection, p50", 2.0, "ms", False,
                 median(f"http.{name}, 1 connection, p50")),
            Goal(f"P11 {name} many", f"{shown}: 64 connections, to a bare Starlette endpoint that stores nothing", 0.5,
                 "×", True, ratio(f"http.{name}, 64 connections", "http.bare Starlette, 64 connections")),
        )),
        Goal("P12 processor", "idle daemon on SQLite: processor", 0.3, "%", False, median("idle.sqlite.processor")),
        Goal("P12 wake-ups", "idle daemon on SQLite: wake-ups", 5.0, "/s", False, median("idle.sqlite.wake-ups")),
        Goal("P12 memory", "idle daemon on SQLite: memory", 60.0, "MB", False, median("idle.sqlite.memory")),
        Goal("P7", "matching: the most any shape costs more at the most contracts than at the fewest", 2.0, "×", False,
             most("matching.", ".grows")),
    ]  # fmt: skip


def most(prefix: str, suffix: str) -> Callable[[Book], float | None]:
    """The largest of the medians with such names."""
    return lambda book: max(
        (figure.median for name, figure in book.figures.items() if name.startswith(prefix) and name.endswith(suffix)),
        default=None,
    )


def median(name: str) -> Callable[[Book], float | None]:
    return lambda book: book.median(name)


def ratio(ours: str, other: str) -> Callable[[Book], float | None]:
    def read(book: Book) -> float | None:
        first, second = book.median(ours), book.median(other)
        return first / second if first is not None and second else None

    return read


def best(work: str) -> Callable[[Book], float | None]:
    """Ours to the quickest of the Python peers that could be measured."""

    def read(book: Book) -> float | None:
        ours = book.median(f"{work}.holdfast")
        others = [value for peer in PYTHON_PEERS if (value := book.median(f"{work}.{peer}"))]
        return ours / max(others) if ours is not None and others else None

    return read


def growth(prefix: str, suffix: str, *, rising_is_worse: bool) -> Callable[[Book], float | None]:
    def read(book: Book) -> float | None:
        values = [figure for _, figure in series(book, prefix, suffix)]
        return worsening(values, rising_is_worse=rising_is_worse) if len(values) > 1 else None

    return read


def series(book: Book, prefix: str, suffix: str) -> list[tuple[int, float]]:
    """Medians by size, for names like `claim.postgres.10000`."""
    found = []
    for name, figure in book.figures.items():
        if name.startswith(prefix) and name.endswith(suffix):
            size = name[len(prefix) : len(name) - len(suffix)]
            if size.isdigit():
                found.append((int(size), figure.median))
    return sorted(found)


def worsening(values: Sequence[float], *, rising_is_worse: bool) -> float:
    """How much worse the worst of the others is than the first, in per cent; better is 0.

    >>> worsening([100.0, 90.0, 80.0], rising_is_worse=False), worsening([2.0, 1.0, 3.0], rising_is_worse=True)
    (20.0, 50.0)
    >>> worsening([100.0, 120.0], rising_is_worse=False)
    0.0
    """
    first, others = values[0], values[1:]
    worst = max(others) / first - 1 if rising_is_worse else 1 - min(others) / first
    return max(0.0, round(worst * 100, 6))


def explanations(text: str | None = None) -> dict[str, str]:
    """The hand-written sentences: `goal id: what limits it`, one a line; lines with # are notes."""
    found = {}
    for line in (WHY.read_text(encoding="utf-8") if text is None else text).splitlines():
        id, colon, sentence = line.partition(": ")
        if colon and not line.startswith("#"):
            found[id.strip()] = sentence.strip()
    return found

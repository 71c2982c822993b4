"""The campaign: load, kill, look, restart, again and again; then drain, stop in order, and hand over the evidence."""

from __future__ import annotations

import contextlib
import json
import math
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.testing.prove.evidence import Ended, Evidence, gather
from holdfast.testing.prove.load import Line
from holdfast.testing.prove.processes import Daemon, Companion, Stuck, wait_until
from holdfast.testing.prove.records import (
    Accepted,
    Answered,
    Book,
    Crashed,
    Killed,
    Reading,
    Received,
    Started,
    read_book,
)
from holdfast.testing.prove.snapshot import glance, read_store
from holdfast.testing.prove.victim import POINTS

CONTRACTS = {"ordered": True, "unordered": False}
CONFIG = """\
egress: {allow: ["127.0.0.0/8"]}
policies:
  prove: {schedule: [0.1, 0.2, 0.5, 1], attempts: 60, lease: 30}
"""
FIRST_DELIVERY_S = 15.0
DRAIN_S = 120.0


@dataclass(frozen=True)
class Plan:
    kills: int
    seed: int
    rate: float = 150.0
    streams: int = 20
    fail: float = 0.1


class Campaign:
    """Give it an empty folder; `run` returns what there is to judge."""

    def __init__(self, root: Path, plan: Plan, say: Callable[[str], None]) -> None:
        self._root, self._plan, self._say = root, plan, say
        self._home, self._database = root / "home", root / "home" / "holdfast.db"
        self._chance = random.Random(plan.seed)
        self._book = Book(root / "lives.book")
        self._sink_book, self._load_book = root / "sink.book", root / "load.book"
        self._reading = Reading(self._sink_book)
        self._arrived, self._open_requests = 0, set[int]()
        self._ended: dict[int, Ended] = {}
        self._companions: list[Companion] = []
        self._daemon: Daemon | None = None
        self._life = 0
        self._intent: tuple[str, str | None] = ("random", None)
        self._boot_s = 1.0

    def run(self) -> Evidence:
        try:
            load = self._open()
            for number in range(1, self._plan.kills + 1):
                for companion in self._companions:
                    companion.check()
                self._kill_once(last=number == self._plan.kills)
                if number % 20 == 0:
                    self._say(f"  {number} kills")
            self._drain(load)
        finally:
            if self._daemon is not None:
                self._daemon.end()
            for companion in reversed(self._companions):
                companion.close(5)
            self._book.close()
        return self._evidence()

    def _open(self) -> Companion:
        """Home, sink, the first life, the contracts, and then the load."""
        self._home.mkdir(mode=0o700)
        (self._home / "holdfast.yml").write_text(CONFIG)
        seed, fail = str(self._plan.seed), str(self._plan.fail)
        sink = Companion("sink", "--book", str(self._sink_book), "--seed", seed, "--fail", fail)
        self._companions.append(sink)
        port = sink.first_line()
        daemon = self._start(*self._intent)
        daemon.wait_answering()
        self._boot_s = (time.monotonic_ns() - daemon.started_ns) / 1e9
        for name, ordered in CONTRACTS.items():
            target = {"url": f"http://127.0.0.1:{port}/{name}"}
            body = {"id": name, "target": target, "ordered": ordered, "policy": "prove", "type_criterion": "prove.fact"}
            status, answer = Line(self._home).post("/hooks/contracts", json.dumps(body).encode())
            if status != 201:
                raise Stuck(f"the contract {name} was not taken: {status} {answer}")
        load = Companion(
            "load", "--home", str(self._home), "--book", str(self._load_book), "--seed", seed,
            "--rate", str(self._plan.rate), "--streams", str(self._plan.streams),
        )  # fmt: skip
        self._companions.append(load)
        wait_until("the first delivery", self._saw_delivery, FIRST_DELIVERY_S)
        return load

    def _start(self, kind: str, crash: str | None = None) -> Daemon:
        note = self._root / f"crash-{self._life}.book"
        self._daemon = daemon = Daemon(self._home, self._root / "daemon.log", crash, note)
        self._arrived = 0
        self._book.write(Started(self._life, kind == "lease", daemon.started_ns))
        return daemon

    def _kill_once(self, last: bool) -> None:
        """End this life as it was planned, look at what it left, and begin the next."""
        assert self._daemon is not None
        kind, _ = self._intent
        getattr(self, f"_end_{kind}")(self._daemon)
        self._daemon.kill()
        killed_ns = time.monotonic_ns()
        seen = glance(self._database, time.time_ns() // 1_000_000)
        notes = read_book(self._root / f"crash-{self._life}.book")
        point = next((note.point for note in notes if isinstance(note, Crashed)), None)
        if kind == "commit" and point is None:
            kind = "random"
        self._book.write(Killed(self._life, kind, point, seen.leases, seen.due, killed_ns))
        self._ended = {**seen.ended, **self._ended}  # the end first seen is the one that must stay
        self._life += 1
        self._intent = ("lease", None) if last else self._choose()
        self._start(*self._intent)

    def _choose(self) -> tuple[str, str | None]:
        """How the next life shall end."""
        kind = self._chance.choices(("random", "lease", "commit"), (30, 40, 30))[0]
        if kind != "commit":
            return kind, None
        # Low numbers strike in recovery and start-up, high ones in the middle of the work.
        return kind, f"{self._chance.choice(POINTS)}:{1 + math.floor(250 * self._chance.random() ** 2)}"

    def _end_random(self, daemon: Daemon) -> None:
        """Any moment, the start-up included."""
        time.sleep(self._chance.uniform(0.0, 1.5 * self._boot_s))

    def _end_lease(self, daemon: Daemon) -> None:
        """While the sink has a request open: whoever sent it holds its lease."""
        self._wait_first_delivery(daemon)
        time.sleep(self._chance.uniform(0.0, self._boot_s))
        with contextlib.suppress(Stuck):  # the look at the store will say what was held
            wait_until("an open request", self._saw_open_request, 0.5)

    def _end_commit(self, daemon: Daemon) -> None:
        """It ends itself inside a commit; if it does not get there, it ends as others do."""
        with contextlib.suppress(Stuck):
            wait_until("the crash", lambda: not daemon.alive, 2.0 * self._boot_s)

    def _wait_first_delivery(self, daemon: Daemon) -> None:
        wait_until("the first delivery after a restart", self._saw_delivery, FIRST_DELIVERY_S)

    def _saw_delivery(self) -> bool:
        self._follow()
        return self._arrived > 0

    def _saw_open_request(self) -> bool:
        self._open_requests.clear()
        self._follow()
        return bool(self._open_requests)

    def _follow(self) -> None:
        """Read on in the sink's book."""
        assert self._daemon is not None
        for record in self._reading.more():
            if isinstance(record, Received):
                self._open_requests.add(record.n)
                self._arrived += record.at_ns > self._daemon.started_ns
            elif isinstance(record, Answered):
                self._open_requests.discard(record.n)

    def _drain(self, load: Companion) -> None:
        """The load ends, everything finds its end, and the daemon is asked to stop."""
        assert self._daemon is not None
        self._wait_first_delivery(self._daemon)
        load.close(90)
        line = Line(self._home)

        def drained() -> bool:
            status, figures = line.ask("GET", "/api/status")
            return status == 200 and figures["pending"] == 0 and figures["unrouted"] == 0

        try:
            wait_until("the end of every delivery", drained, DRAIN_S, every_s=0.1)
        except Stuck as stuck:
            self._say(f"  {stuck}")  # the checker says what still waits
        line.hang_up()
        self._daemon.signal(signal.SIGTERM)
        code = self._daemon.wait()
        if code != 0:
            raise Stuck(f"the daemon was asked to stop and ended with {code}; see {self._root / 'daemon.log'}")

    def _evidence(self) -> Evidence:
        records = [
            record
            for path in (self._load_book, self._sink_book, self._root / "lives.book")
            for record in read_book(path)
        ]
        if not any(isinstance(record, Accepted) for record in records):
            raise Stuck("nothing was accepted: there is nothing to judge")
        ordered = [name for name, is_ordered in CONTRACTS.items() if is_ordered]
        return gather(records, read_store(self._database), ordered, CONTRACTS, self._ended)

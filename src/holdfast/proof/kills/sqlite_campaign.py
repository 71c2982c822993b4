"""The campaign on SQLite: kill, inspect and restart under load; then drain, stop, and return the evidence."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable

from holdfast.proof.kills.evidence import Evidence
from holdfast.proof.kills.processes import Stuck, wait_until
from holdfast.proof.kills.records import Crashed, Killed, read_records
from holdfast.proof.kills.snapshot import read_crash_state
from holdfast.proof.kills.sqlite_setup import SqliteSetup
from holdfast.proof.kills.victim import POINTS

KINDS = {"random": 30, "lease": 40, "commit": 30}
PASSINGS_MAX = 120


class SqliteCampaign:
    """Kills the daemon: at a random moment, while the sink has an open request, or inside a commit."""

    def __init__(self, setup: SqliteSetup, kills: int, progress: Callable[[str], None]) -> None:
        self._setup, self._kills, self._progress = setup, kills, progress
        self._chance = random.Random(setup.plan.seed)
        self._kind, self._boot_s = "random", 1.0
        self._ends = {"random": self._end_random, "lease": self._end_lease, "commit": self._end_commit}

    def run(self) -> Evidence:
        with self._setup as setup:
            setup.open()
            self._boot_s = setup.boot_s
            for number in range(1, self._kills + 1):
                setup.check()
                self._kill()
                self._restart(last=number == self._kills)
                if number % 20 == 0:
                    self._progress(f"  {number} kills")
            setup.wait_first_delivery()
            setup.drain(self._progress)
        return setup.evidence()

    def _kill(self) -> None:
        """End this life as planned, and read the store before the next life opens it."""
        setup, kind = self._setup, self._kind
        self._ends[kind]()
        setup.daemon.kill()
        killed_ns = time.monotonic_ns()
        seen = read_crash_state(setup.database, time.time_ns() // 1_000_000)
        point = next((note.point for note in read_records(setup.crash_note) if isinstance(note, Crashed)), None)
        if kind == "commit" and point is None:
            kind = "random"  # it did not reach that point, and was killed from outside
        doing = setup.activity.doing(setup.life, 0, seen.leased, seen.unrouted)
        setup.activity.forget(setup.life)
        setup.records.write(Killed(setup.life, kind, point, len(seen.leased), seen.due, killed_ns, doing))
        setup.ended = {**seen.ended, **setup.ended}  # an end must stay as first seen

    def _restart(self, last: bool) -> None:
        """Start the next life and draw how it will end. The last one is not killed."""
        self._kind = "lease" if last else self._chance.choices(list(KINDS), list(KINDS.values()))[0]
        crash = None
        if self._kind == "commit":
            # Low numbers hit recovery and start-up, high ones normal work.
            passing = 1 + math.floor(PASSINGS_MAX * self._chance.random() ** 2)
            crash = f"{self._chance.choice(POINTS)}:{passing}"
        self._setup.start(waited=self._kind == "lease", crash=crash)

    def _end_random(self) -> None:
        """Any moment, including start-up."""
        time.sleep(self._chance.uniform(0.0, 1.5 * self._boot_s))

    def _end_lease(self) -> None:
        """While the sink has an open request, whose sender holds the lease."""
        self._setup.wait_first_delivery()
        time.sleep(self._chance.uniform(0.0, self._boot_s))
        with contextlib.suppress(Stuck):  # the state read below shows what was held
            wait_until("an open request", self._setup.saw_open_request, 0.5)

    def _end_commit(self) -> None:
        """The daemon kills itself inside a commit; if it does not get there in time, it is killed."""
        with contextlib.suppress(Stuck):
            wait_until("the crash", lambda: not self._setup.daemon.alive, 2.0 * self._boot_s)

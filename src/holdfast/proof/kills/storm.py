"""The campaign on PostgreSQL: two daemons under load, and trouble of every kind, round by round, drawn from a seed."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from holdfast.proof.kills.audit import life_of
from holdfast.proof.kills.evidence import Evidence
from holdfast.proof.kills.fleet import DAEMONS, Fleet
from holdfast.proof.kills.processes import Stuck, wait_until
from holdfast.proof.kills.records import BLOCKED, Killed, Struck
from holdfast.proof.kills.server import OwnServer
from holdfast.proof.kills.strikes import BACKEND, DAEMON, KINDS, OF_THE_SERVER, POSTMASTER, STOPPED, TERMINATED

PAUSE_S = 1.0
STORM_S = 1.2
LOOK_S = 0.25
BACK_S = 300.0
CATCH_S = 1.0
AT_WORK = 0.75


class Now(NamedTuple):
    """This moment, on both clocks."""

    ms: int
    ns: int


def now() -> Now:
    return Now(time.time_ns() // 1_000_000, time.monotonic_ns())


class Storm:
    """Strikes a fleet. The server's own processes are killed only where the server is ours. `only`: one kind alone."""

    def __init__(
        self, fleet: Fleet, server: OwnServer | None, rounds: int, say: Callable[[str], None], only: str | None = None
    ) -> None:
        self._fleet, self._server, self._rounds, self._say, self._only = fleet, server, rounds, say, only
        self._chance = random.Random(fleet.plan.seed)
        self._strikes = {
            DAEMON: self._kill_daemon, STOPPED: self._stop_daemon, TERMINATED: self._terminate,
            BACKEND: self._kill_backend, POSTMASTER: self._kill_postmaster,
        }  # fmt: skip

    def run(self) -> Evidence:
        with self._fleet as fleet:
            fleet.open()
            for number, kind in enumerate(self._kinds(), 1):
                fleet.catch_up()
                time.sleep(self._chance.uniform(0.0, PAUSE_S))
                fleet.check()
                self._strikes[kind]()
                if number % 10 == 0:
                    self._say(f"  {number} rounds")
            fleet.drain(self._say)
            return fleet.evidence()

    def _kinds(self) -> list[str]:
        """Every kind at least once if there are rounds enough, then by weight; in an order drawn from the seed."""
        wished = {self._only} if self._only is not None else KINDS.keys()
        usable = KINDS.keys() if self._server else KINDS.keys() - OF_THE_SERVER
        weights = {kind: weight for kind, weight in KINDS.items() if kind in usable and kind in wished}
        kinds = list(weights)[: self._rounds]
        kinds += self._chance.choices(list(weights), list(weights.values()), k=self._rounds - len(kinds))
        self._chance.shuffle(kinds)
        return kinds

    def _kill_daemon(self) -> None:
        """SIGKILL, mostly while the sink has a request of it open; a look at what it left, and the next life."""
        fleet, number = self._fleet, self._chance.randrange(DAEMONS)
        daemon, life = fleet.daemons[number], fleet.lives[number]
        if self._chance.random() < AT_WORK:
            with contextlib.suppress(Stuck):  # the look at the store will say what was held
                wait_until("an open request", lambda: fleet.saw_open_request(life), CATCH_S)
        began = now()
        daemon.kill()
        killed_ns = time.monotonic_ns()
        seen = fleet.database.glance(daemon.pid)
        doing = fleet.watch.doing(life, number, seen.leased, seen.unrouted)
        fleet.watch.forget(life)
        fleet.book.write(Killed(life, DAEMON, None, len(seen.leased), seen.due, killed_ns, doing, began.ms))
        waited = self._chance.random() < 0.6
        fleet.start(number, waited=waited)
        if waited:
            fleet.wait_delivery(0, fleet.lives[number])

    def _stop_daemon(self) -> None:
        """SIGSTOP for longer than a lease: others take over; then it wakes, and believes nothing happened."""
        fleet, number = self._fleet, self._chance.randrange(DAEMONS)
        began, life = now(), fleet.lives[number]
        until_s = time.monotonic() + fleet.plan.lease_ms / 1000 + self._chance.uniform(0.3, 2.0)
        blocked: set[str] = set()
        fleet.daemons[number].signal(signal.SIGSTOP)
        try:
            while time.monotonic() < until_s:
                blocked |= fleet.database.blocked_by(f"{fleet.tag}-{life}")
                time.sleep(LOOK_S)
        finally:
            fleet.daemons[number].signal(signal.SIGCONT)
        over = now()
        for tag in sorted(blocked):
            fleet.book.write(Struck(BLOCKED, life_of(tag), began.ms, over.ms, over.ns))
        self._struck(STOPPED, life, began)

    def _terminate(self) -> None:
        """A storm of pg_terminate_backend over sessions of daemons and publishers."""
        fleet, began = self._fleet, now()
        until_ns = began.ns + round(self._chance.uniform(0.2, STORM_S) * 1e9)
        while time.monotonic_ns() < until_ns:
            pids = fleet.database.sessions(fleet.tag)
            if pids:
                fleet.database.end_sessions(self._chance.sample(pids, self._chance.randint(1, len(pids))))
            time.sleep(self._chance.uniform(0.0, 0.2))
        self._struck(TERMINATED, None, began)

    def _kill_backend(self) -> None:
        """SIGKILL of one of the server's processes: the postmaster throws out everybody and recovers."""
        assert self._server is not None
        fleet = self._fleet
        fleet.ended = {**fleet.database.ended(), **fleet.ended}
        pids = fleet.database.sessions(fleet.tag)
        self._chance.shuffle(pids)
        began = now()
        if not any(self._server.kill_backend(pid) for pid in pids):
            self._terminate()  # nobody was connected in that very moment
            return
        wait_until("the server's recovery", lambda: self._is_recovered(pids), BACK_S, every_s=0.05)
        self._struck(BACKEND, None, began)

    def _kill_postmaster(self) -> None:
        assert self._server is not None
        self._fleet.ended = {**self._fleet.database.ended(), **self._fleet.ended}
        began = now()
        self._server.kill()
        time.sleep(self._chance.uniform(0.0, 1.0))
        self._server.start()
        self._struck(POSTMASTER, None, began)

    def _is_recovered(self, before: list[int]) -> bool:
        """Whether the server answers again and all earlier sessions are gone: it answers until it notices the kill."""
        try:
            return set(before).isdisjoint(self._fleet.database.sessions(self._fleet.tag))
        except Exception:
            return False

    def _struck(self, kind: str, life: int | None, began: Now) -> None:
        """Write it down, and wait until work goes on."""
        over = now()
        self._fleet.book.write(Struck(kind, life, began.ms, over.ms, over.ns))
        self._fleet.wait_delivery(over.ns)

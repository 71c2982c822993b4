"""The campaign on PostgreSQL: three daemons under load, and disruptions of every kind drawn from a seed."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from holdfast.proof.kills.audit import life_of
from holdfast.proof.kills.disruptions import (
    BACKEND,
    CUT,
    DAEMON,
    FAILOVER,
    KINDS,
    MOVED,
    OWN_KINDS,
    POSTMASTER,
    RESTARTED,
    STOPPED,
    TERMINATED,
)
from holdfast.proof.kills.evidence import Evidence
from holdfast.proof.kills.postgres_setup import DAEMONS, PostgresSetup
from holdfast.proof.kills.processes import Stuck, wait_until
from holdfast.proof.kills.records import BLOCKED, Disruption, Killed
from holdfast.proof.kills.server_pair import ServerPair

PAUSE_S = 1.0
TERMINATE_S = 1.2
POLL_S = 0.25
RECOVERY_S = 300.0
OPEN_REQUEST_S = 1.0
BUSY_SHARE = 0.75
DIRECTIONS, HEALING = ("both", "up", "down"), ("heal", "heal", "reset")


class Now(NamedTuple):
    """The current time on both clocks."""

    ms: int
    ns: int


def now() -> Now:
    return Now(time.time_ns() // 1_000_000, time.monotonic_ns())


class PostgresCampaign:
    """Disrupts the daemons; servers and networks only if they were started here. `only`: a single kind."""

    def __init__(
        self,
        setup: PostgresSetup,
        servers: ServerPair | None,
        rounds: int,
        progress: Callable[[str], None],
        only: str | None = None,
    ) -> None:
        self._setup, self._servers, self._rounds, self._progress, self._only = setup, servers, rounds, progress, only
        self._chance = random.Random(setup.plan.seed)
        self._disruptions = {
            DAEMON: self._kill_daemon, STOPPED: self._stop_daemon, TERMINATED: self._terminate,
            BACKEND: self._kill_backend, POSTMASTER: self._kill_postmaster, RESTARTED: self._restart_daemon,
            CUT: self._cut_network, MOVED: self._move_queue, FAILOVER: self._fail_over,
        }  # fmt: skip

    def run(self) -> Evidence:
        with self._setup as setup:
            setup.open()
            for number, kind in enumerate(self._kinds(), 1):
                setup.catch_up()
                time.sleep(self._chance.uniform(0.0, PAUSE_S))
                setup.check()
                self._disruptions[kind]()
                if number % 10 == 0:
                    self._progress(f"  {number} rounds")
            setup.drain(self._progress)
            return setup.evidence()

    def _kinds(self) -> list[str]:
        """Every kind at least once if there are enough rounds, the rest by weight, in an order drawn from the seed."""
        wanted = {self._only} if self._only is not None else KINDS.keys()
        usable = KINDS.keys() if self._servers else KINDS.keys() - OWN_KINDS
        weights = {kind: weight for kind, weight in KINDS.items() if kind in usable and kind in wanted}
        kinds = list(weights)[: self._rounds]
        kinds += self._chance.choices(list(weights), list(weights.values()), k=self._rounds - len(kinds))
        self._chance.shuffle(kinds)
        return kinds

    def _kill_daemon(self) -> None:
        """SIGKILL, usually while the sink has an open request of this daemon; then record the state and restart."""
        setup, number = self._setup, self._chance.randrange(DAEMONS)
        daemon, life = setup.daemons[number], setup.lives[number]
        if self._chance.random() < BUSY_SHARE:
            with contextlib.suppress(Stuck):  # the state read below shows what was held
                wait_until("an open request", lambda: setup.saw_open_request(life), OPEN_REQUEST_S)
        began = now()
        daemon.kill()
        killed_ns = time.monotonic_ns()
        seen = setup.database.read_crash_state(daemon.pid)
        doing = setup.activity.doing(life, number, seen.leased, seen.unrouted)
        setup.activity.forget(life)
        setup.records.write(Killed(life, DAEMON, None, len(seen.leased), seen.due, killed_ns, doing, began.ms))
        waited = self._chance.random() < 0.6
        setup.start(number, waited=waited)
        if waited:
            setup.wait_delivery(0, setup.lives[number])

    def _stop_daemon(self) -> None:
        """SIGSTOP for longer than a lease: others take over; then it continues, unaware of the pause."""
        setup, number = self._setup, self._chance.randrange(DAEMONS)
        began, life = now(), setup.lives[number]
        until_s = time.monotonic() + setup.plan.lease_ms / 1000 + self._chance.uniform(0.3, 2.0)
        blocked: set[str] = set()
        setup.daemons[number].signal(signal.SIGSTOP)
        try:
            while time.monotonic() < until_s:
                blocked |= setup.database.blocked_by(f"{setup.tag}-{life}")
                time.sleep(POLL_S)
        finally:
            setup.daemons[number].signal(signal.SIGCONT)
        over = now()
        for tag in sorted(blocked):
            setup.records.write(Disruption(BLOCKED, life_of(tag), began.ms, over.ms, over.ns))
        self._record(STOPPED, life, began)

    def _terminate(self) -> None:
        """Call pg_terminate_backend repeatedly on sessions of daemons and publishers."""
        setup, began = self._setup, now()
        until_ns = began.ns + round(self._chance.uniform(0.2, TERMINATE_S) * 1e9)
        while time.monotonic_ns() < until_ns:
            pids = setup.database.sessions(setup.tag)
            if pids:
                setup.database.end_sessions(self._chance.sample(pids, self._chance.randint(1, len(pids))))
            time.sleep(self._chance.uniform(0.0, 0.2))
        self._record(TERMINATED, None, began)

    def _kill_backend(self) -> None:
        """SIGKILL one backend of the server: the postmaster ends all sessions and recovers."""
        assert self._servers is not None
        setup = self._setup
        setup.ended = {**setup.database.ended(), **setup.ended}
        pids = setup.database.sessions(setup.tag)
        self._chance.shuffle(pids)
        began = now()
        if not any(self._servers.primary.kill_backend(pid) for pid in pids):
            self._terminate()  # there was no session at that moment
            return
        wait_until("the server's recovery", lambda: self._is_recovered(pids), RECOVERY_S, every_s=0.05)
        self._record(BACKEND, None, began)

    def _kill_postmaster(self) -> None:
        assert self._servers is not None
        self._setup.ended = {**self._setup.database.ended(), **self._setup.ended}
        began = now()
        self._servers.primary.kill()
        time.sleep(self._chance.uniform(0.0, 1.0))
        self._servers.primary.start()
        self._record(POSTMASTER, None, began)

    def _restart_daemon(self) -> None:
        """SIGTERM, an end in order, and a new process."""
        setup, number = self._setup, self._chance.randrange(DAEMONS)
        setup.daemons[number].wait_answering()  # before that, SIGTERM ends a process as the system does
        began, life = now(), setup.lives[number]
        setup.daemons[number].signal(signal.SIGTERM)
        if (code := setup.daemons[number].wait(RECOVERY_S)) != 0:
            raise Stuck(f"daemon {number} exited with {code} after SIGTERM; see {setup.log}")
        setup.start(number)
        self._record(RESTARTED, life, began)

    def _cut_network(self) -> None:
        """A daemon loses the database for longer than a lease: others take over. Then all that it sent arrives late."""
        setup, number = self._setup, self._chance.randrange(DAEMONS)
        began, life = now(), setup.lives[number]
        setup.networks[number].send(f"cut {self._chance.choice(DIRECTIONS)}")
        time.sleep(setup.plan.lease_ms / 1000 + self._chance.uniform(0.3, 3.0))
        setup.networks[number].send(self._chance.choice(HEALING))
        self._record(CUT, life, began)

    def _move_queue(self) -> None:
        """Move the ready queue into pgmq, or back."""
        began = now()
        self._setup.database.move_queue()
        self._record(MOVED, None, began)

    def _fail_over(self) -> None:
        """SIGKILL the primary and promote its synchronous standby. The killed server becomes the next standby."""
        assert self._servers is not None
        self._setup.ended = {**self._setup.database.ended(), **self._setup.ended}
        began = now()
        self._servers.fail_over()
        self._record(FAILOVER, None, began)
        self._servers.rebuild_standby()

    def _is_recovered(self, before: list[int]) -> bool:
        """Whether the server answers and all earlier sessions are gone. It answers until it notices the kill."""
        try:
            return set(before).isdisjoint(self._setup.database.sessions(self._setup.tag))
        except Exception:
            return False

    def _record(self, kind: str, life: int | None, began: Now) -> None:
        """Record the disruption, and wait for the next delivery."""
        over = now()
        self._setup.records.write(Disruption(kind, life, began.ms, over.ms, over.ns))
        self._setup.wait_delivery(over.ns)

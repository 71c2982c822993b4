"""Injects the faults that this seed has enabled, at random moments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from holdfast.domain.errors import StoreBusy
from holdfast.domain.lane import lane_key
from holdfast.proof.simulation.environment import SimulatedProcess
from holdfast.proof.simulation.fixtures import CONTRACTS, TEMPORARY
from holdfast.proof.simulation.process import Died, Process
from holdfast.proof.simulation.world import World
from holdfast.store.roles.owners import Actor
from holdfast.testing.clock import NOON_MS

POINTS = ("begun", "before_commit", "after_commit")
ENDED = frozenset({"dead", "delivered", "dropped"})
PAUSES = [
    ("contract", "ordered"),
    ("address", "handler:plain"),
    *[
        ("lane", lane_key("https", CONTRACTS[0].address.text, CONTRACTS[0].id, name, ordered=True) or "")
        for name in "ab"
    ],
]
FREEZE_S = (0.5, 8.0, 33.0, 45.0)
OUTAGE_S = (3.0, 10.0, 30.0)
COUNTDOWNS = (8, 30, 90)
"""Statements until a process that opens its store dies: most fall into opening, migrating or creating it."""
SKEWS_MS = (-90_000, -4_000, 0, 4_000, 90_000)
NOTICED_S = 9.0
"""After a freeze, a process may not know for this long what it lost. It renews every 7.5 s."""


class FaultInjector:
    def __init__(self, world: World) -> None:
        self._world, self._chance = world, world.chance
        self._highest_ms = NOON_MS
        self._freezes = 0
        self._paused: set[tuple[str, str]] = set()
        swarm = world.swarm
        self._kinds: list[Callable[[], object]] = [
            kind
            for kind, on in (
                (self._crash_at_commit, swarm.crash_commit),
                (self._crash_between_steps, swarm.crash_step),
                (self._reboot, swarm.reboot),
                (self._freeze, swarm.freeze),
                (self._step_wall, swarm.wall_steps),
                (self._kill_other, swarm.second_owner),
                (self._stop, swarm.stops),
                (self._operate, swarm.operator),
                (self._change_contracts, swarm.contract_changes),
                (self._pause, swarm.pauses),
                (self._outage, swarm.outages),
            )
            if on
        ]

    async def run(self) -> None:
        for _ in range(self._chance.randint(2, 8) if self._kinds else 1):
            await asyncio.sleep(self._chance.choice((0.01, 0.1, 0.3, 1.0, 2.0)))
            if self._kinds:
                done = self._chance.choice(self._kinds)()
                if asyncio.iscoroutine(done):
                    await done

    def maybe_crash_recovery(self, keeper: Process) -> None:
        """A restarted process may die again before it has recovered."""
        world = self._world
        if world.swarm.crash_recovery and not world.calm and self._chance.random() < 0.5:
            world.ledger.fault("crash armed for recovery")
            if self._chance.random() < 0.5:
                keeper.crash_in = self._chance.randint(0, 25)
            else:
                keeper.crash_point = (self._chance.choice(POINTS), self._chance.randint(0, 4))

    def crash_after(self) -> int | None:
        """After how many statements a process that opens the store shall die; None: it shall not."""
        if self._world.swarm.crash_opening and not self._world.calm and self._chance.random() < 0.5:
            return self._chance.randint(0, self._chance.choice(COUNTDOWNS))
        return None

    def draw_skew_ms(self) -> int:
        """How far the wall clock of a new process is off."""
        return self._chance.choice(SKEWS_MS) if self._world.swarm.skew and not self._world.calm else 0

    def maybe_crash_after_import(self, keeper: SimulatedProcess) -> None:
        """Called between the commit of an import and the removal of its records."""
        swarm, calm = self._world.swarm, self._world.calm
        if (swarm.crash_commit or swarm.crash_step) and not calm and self._chance.random() < 0.4:
            self._world.ledger.fault("crash between import and removal")
            keeper.crash("between import and removal")

    def end(self) -> None:
        """Disarm all faults, and set the wall clock ahead of every time that was ever recorded."""
        world = self._world
        for process in world.processes.values():
            process.crash_in = process.crash_point = None
        self._remember_wall()
        world.clock.step_wall(max(0, self._highest_ms - world.clock.now_ms()))
        for process in world.alive:
            process.clock.skew_ms = 0
        for other in world.others:
            if other.note.declared_dead or other.note.stalled_until_s > 0 or self._chance.random() < 0.5:
                other.kill("end of faults")

    async def restore(self) -> None:
        """Resume everything that was paused or disabled."""
        for scope, name in sorted(self._paused):
            while not await self._call_keeper(partial(_resume, scope, name)):
                await asyncio.sleep(0.5)
        if self._world.swarm.contract_changes:
            while not await self._call_keeper(
                lambda process: process.store.contracts.put(TEMPORARY, None, by=_by(process))
            ):
                await asyncio.sleep(0.5)

    def _target(self) -> Process | None:
        return self._world.any_process()

    def _crash_at_commit(self) -> None:
        if target := self._target():
            target.crash_point = (self._chance.choice(POINTS), self._chance.randint(0, 12))

    def _crash_between_steps(self) -> None:
        if target := self._target():
            target.crash_in = self._chance.randint(0, 120)

    def _reboot(self) -> None:
        self._world.ledger.fault("reboot")
        for process in list(self._world.processes.values()):
            process.kill("the machine reboots")
        self._world.clock.reboot()

    def _freeze(self) -> None:
        """Freeze the next process that has a delivery in flight."""
        self._freezes += 1

    def maybe_freeze(self, target: SimulatedProcess) -> None:
        """Called while a delivery is in flight, the critical moment for a freeze."""
        if self._freezes == 0 or self._world.calm or self._chance.random() < 0.5:
            return
        self._freezes -= 1
        seconds = self._chance.choice(FREEZE_S)
        self._world.ledger.fault("freeze" if seconds < 30 else "freeze beyond the lease")
        now_s = self._world.loop.time()
        # A process that was frozen until just now has not had time to renew its leases.
        again = target.life.frozen_until > now_s or target.note.stalled_until_s >= now_s
        if again or seconds >= 15:
            target.note.stalled_until_s = now_s + seconds + NOTICED_S
        target.log(f"freezes for {seconds} s")
        self._world.loop.freeze(target.life, seconds)

    def _step_wall(self) -> None:
        ms = round(self._chance.choice((-1, 1)) * self._chance.choice((500, 5_000, 120_000)))
        self._world.ledger.fault("wall clock stepped")
        self._remember_wall()
        self._world.clock.step_wall(ms)
        self._remember_wall()
        self._world.ledger.log(self._world.loop.time(), f"the wall clock steps by {ms} ms")

    def _remember_wall(self) -> None:
        most_ms = max((process.clock.skew_ms for process in self._world.processes.values()), default=0)
        self._highest_ms = max(self._highest_ms, self._world.clock.now_ms() + most_ms)

    def _kill_other(self) -> None:
        if others := self._world.others:
            self._world.ledger.fault("another owner killed")
            self._chance.choice(others).kill("killed")

    async def _stop(self) -> None:
        """Stop a process in order. It may still die while stopping."""
        process = self._world.any_process()
        if process is None or not process.started:
            return
        self._world.ledger.fault("stopped in order")
        try:
            await process.call(process.stop())
        except (Died, StoreBusy):
            process.kill("while stopping")
            return
        if held := self._world.observer.held_by(process.owner.id):
            self._world.errors.append(f"{process.name} stopped in order, but still holds leases of {held}")
        process.kill("stopped in order")

    async def _operate(self) -> None:
        """An operator reprocesses an ended delivery, or cancels a pending one."""
        seen = sorted(self._world.observer.seen.values())
        if not seen:
            return
        chosen = self._chance.choice(seen)
        self._world.ledger.operated[chosen.id] = self._world.loop.time()
        self._world.ledger.fault("operator")
        if chosen.state == "pending":
            await self._call_keeper(
                lambda process: process.store.operator.cancel(process.owner, [chosen.id], "operator")
            )
        elif chosen.reason != "crash_loop":
            await self._call_keeper(
                lambda process: process.store.operator.reprocess(process.owner, [chosen.id], ENDED, "operator")
            )

    async def _change_contracts(self) -> None:
        self._world.ledger.fault("contracts changed")
        kind = self._chance.choice(("put", "off", "on", "remove"))
        if kind == "put":
            await self._call_keeper(_put_temporary)
        elif kind == "remove":
            await self._call_keeper(lambda process: process.store.contracts.remove(TEMPORARY.id, by=_by(process)))
        else:
            active = kind == "on"
            await self._call_keeper(
                lambda process: process.store.contracts.set_active(TEMPORARY.id, active, by=_by(process))
            )

    async def _pause(self) -> None:
        """Pause or resume a contract, an address or a lane."""
        self._world.ledger.fault("pause or resume")
        scope, name = self._chance.choice(PAUSES)
        self._paused.add((scope, name))
        if self._chance.random() < 0.6:
            await self._call_keeper(lambda process: process.store.operator.pause(scope, name, by=_by(process)))
        else:
            await self._call_keeper(partial(_resume, scope, name))

    def _outage(self) -> None:
        """All webhook receivers fail for a while, long enough for breakers to open."""
        self._world.ledger.fault("outage")
        self._world.receivers.down_until_s = self._world.loop.time() + self._chance.choice(OUTAGE_S)

    async def _call_keeper(self, verb: Callable[[Process], object]) -> bool:
        """Run an operation in the keeper. False if it was not running or died; then the outcome is unknown."""
        keeper = self._world.keeper
        if keeper is None or keeper.life.dead or not keeper.started:
            return False
        try:
            await keeper.call(verb(keeper))  # type: ignore[arg-type]
        except (Died, StoreBusy):
            return False
        return True


def _resume(scope: str, name: str, process: Process) -> object:
    return process.store.operator.resume(scope, name, by=_by(process))


def _put_temporary(process: Process) -> object:
    return process.store.contracts.put(TEMPORARY, None, by=_by(process))


def _by(process: Process) -> Actor:
    """The operator, on the chain of this process."""
    return process.owner.acting("operator")

"""Trouble: at drawn moments, one of the faults that this seed has switched on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from holdfast.domain.errors import StoreBusy
from holdfast.domain.lane import lane_key
from holdfast.testing.clock import NOON_MS
from holdfast.testing.sim.process import Died, Process
from holdfast.testing.sim.scene import CONTRACTS, PASSING

if TYPE_CHECKING:
    from holdfast.testing.sim.world import World

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


class Trouble:
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
                (self._kill_second, swarm.second_owner),
                (self._operate, swarm.operator),
                (self._change_contracts, swarm.contract_changes),
                (self._pause, swarm.pauses),
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

    def disturb_recovery(self, keeper: Process) -> None:
        """A process that just came back may die again before it stands."""
        world = self._world
        if world.swarm.crash_recovery and not world.calm and self._chance.random() < 0.5:
            world.ledger.fault("crash armed for recovery")
            if self._chance.random() < 0.5:
                keeper.crash_in = self._chance.randint(0, 25)
            else:
                keeper.crash_point = (self._chance.choice(POINTS), self._chance.randint(0, 4))

    def disturb_import(self, keeper: Process) -> None:
        """Between the commit of an import and the removal of its record there is but one moment to die."""
        if self._world.swarm.crash_commit and self._chance.random() < 0.3:
            keeper.crash_point = ("after_commit", self._chance.randint(0, 6))

    def end(self) -> None:
        """Disarm everything, and set the wall clock right: ahead of every time that was ever written down."""
        world = self._world
        for process in world.processes.values():
            process.crash_in = process.crash_point = None
        self._remember_wall()
        world.clock.step_wall(max(0, self._highest_ms - world.clock.now_ms()))
        second = world.second
        if second is not None and (second.note.suspended or self._chance.random() < 0.5):
            second.kill("the trouble is over")

    async def restore(self) -> None:
        """What is switched off or paused keeps waiting: on with it."""
        for scope, name in sorted(self._paused):
            while not await self._ask(partial(_resume, scope, name)):
                await asyncio.sleep(0.5)
        if self._world.swarm.contract_changes:
            while not await self._ask(lambda process: process.store.contracts.put(PASSING, None)):
                await asyncio.sleep(0.5)

    def _victim(self) -> Process | None:
        world = self._world
        alive = [p for p in (world.keeper, world.second) if p is not None and not p.life.dead]
        return self._chance.choice(alive) if alive else None

    def _crash_at_commit(self) -> None:
        if victim := self._victim():
            victim.crash_point = (self._chance.choice(POINTS), self._chance.randint(0, 12))

    def _crash_between_steps(self) -> None:
        if victim := self._victim():
            victim.crash_in = self._chance.randint(0, 120)

    def _reboot(self) -> None:
        self._world.ledger.fault("reboot")
        for process in list(self._world.processes.values()):
            process.kill("the machine reboots")
        self._world.clock.reboot()

    def _freeze(self) -> None:
        """The next process that has something in hand will stand still."""
        self._freezes += 1

    def strike(self, victim: Process) -> None:
        """Called when a receiver is asked to take something: a bad moment to stand still."""
        if self._freezes == 0 or self._world.calm or self._chance.random() < 0.5:
            return
        self._freezes -= 1
        seconds = self._chance.choice(FREEZE_S)
        self._world.ledger.fault("freeze" if seconds < 30 else "freeze beyond the lease")
        again = victim.life.frozen_until > self._world.loop.time()
        victim.note.suspended = victim.note.suspended or again or seconds >= 15
        victim.log(f"freezes for {seconds} s")
        self._world.loop.freeze(victim.life, seconds)

    def _step_wall(self) -> None:
        ms = round(self._chance.choice((-1, 1)) * self._chance.choice((500, 5_000, 120_000)))
        self._world.ledger.fault("wall clock stepped")
        self._remember_wall()
        self._world.clock.step_wall(ms)
        self._remember_wall()
        self._world.ledger.log(self._world.loop.time(), f"the wall clock steps by {ms} ms")

    def _remember_wall(self) -> None:
        self._highest_ms = max(self._highest_ms, self._world.clock.now_ms())

    def _kill_second(self) -> None:
        second = self._world.second
        if second is not None and not second.life.dead:
            self._world.ledger.fault("second owner killed")
            second.kill("killed")

    async def _operate(self) -> None:
        """An operator takes up ended deliveries again, or cancels one that waits."""
        seen = sorted(self._world.observer.seen.values())
        if not seen:
            return
        chosen = self._chance.choice(seen)
        self._world.ledger.operated.add(chosen.id)
        self._world.ledger.fault("operator")
        if chosen.state == "pending":
            await self._ask(lambda process: process.store.operator.cancel(process.owner, [chosen.id], "operator"))
        elif chosen.reason != "crash_loop":
            await self._ask(
                lambda process: process.store.operator.reprocess(process.owner, [chosen.id], ENDED, "operator")
            )

    async def _change_contracts(self) -> None:
        self._world.ledger.fault("contracts changed")
        kind = self._chance.choice(("put", "off", "on", "remove"))
        if kind == "put":
            await self._ask(lambda process: process.store.contracts.put(PASSING, None))
        elif kind == "remove":
            await self._ask(lambda process: process.store.contracts.remove(PASSING.id))
        else:
            await self._ask(lambda process: process.store.contracts.set_active(PASSING.id, kind == "on"))

    async def _pause(self) -> None:
        """Pause a contract, an address or a lane, or let one of them go on."""
        self._world.ledger.fault("pause or resume")
        scope, name = self._chance.choice(PAUSES)
        self._paused.add((scope, name))
        if self._chance.random() < 0.6:
            await self._ask(lambda process: process.store.operator.pause(scope, name))
        else:
            await self._ask(partial(_resume, scope, name))

    async def _ask(self, verb: Callable[[Process], object]) -> bool:
        """Have the keeper do something. It may die over it: then nobody knows whether it did."""
        keeper = self._world.keeper
        if keeper is None or keeper.life.dead or not keeper.started:
            return False
        try:
            await keeper.call(verb(keeper))  # type: ignore[arg-type]
        except (Died, StoreBusy):
            return False
        return True


def _resume(scope: str, name: str, process: Process) -> object:
    return process.store.operator.resume(scope, name)

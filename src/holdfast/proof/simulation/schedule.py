"""One schedule: clients, processes and faults; then a quiet phase in which all work must end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from random import Random

from holdfast.domain.errors import StoreBusy
from holdfast.proof.simulation.clients import Clients
from holdfast.proof.simulation.fault_injector import FaultInjector
from holdfast.proof.simulation.fixtures import CONTRACTS
from holdfast.proof.simulation.ledger import Case
from holdfast.proof.simulation.loop import Stuck
from holdfast.proof.simulation.mutants import Mutant
from holdfast.proof.simulation.process import CannotOpen, Died, Process
from holdfast.proof.simulation.swarm import Swarm
from holdfast.proof.simulation.workspace import VERSIONS, Workspace
from holdfast.proof.simulation.world import World

QUIET_MAX_S = 200.0
BREAKER_QUIET_MAX_S = 3000.0
"""With breakers, events that always fail are retried one at a time, half a minute apart."""
LEAK_CHECKS = 12
OTHERS_MAX = 2


class Schedule:
    def __init__(self, chance: Random, swarm: Swarm, workspace: Workspace, mutant: Mutant, trace: bool = False) -> None:
        self.world = World(chance, swarm, workspace, mutant, trace)
        self._chance, self._swarm, self._loop = chance, swarm, self.world.loop
        self._injector = self.world.injector = FaultInjector(self.world)
        self._clients = Clients(self.world)
        self._task: asyncio.Task[None] | None = None
        self._quiet = False
        self._leaks: list[str] = []

    def run(self) -> Case:
        if self._swarm.old_file and VERSIONS:
            self.world.workspace.make_old(self._chance.choice(VERSIONS), self._clients.old_facts())
        elif self._swarm.no_file:
            self.world.workspace.path.unlink()
        try:
            self._loop.run(self._main())
        except Stuck as error:
            self.world.errors.append(str(error))
        finally:
            for process in self.world.processes.values():
                process.abandon()
            observer, errors = self.world.observer, self.world.errors
            errors += [f"delivery {id} changed without a recorded commit" for id in observer.missed()]
            errors += [f"at the end there is {what}" for what in observer.stray()]
            rows = observer.rows()
            observer.close()
        errors += self._loop.errors + self._leaks
        self.world.ledger.log(self._loop.time(), f"end after {self._loop.steps} steps")
        contracts = frozenset(contract.id for contract in CONTRACTS)
        ordered = frozenset(contract.id for contract in CONTRACTS if contract.is_ordered)
        return Case(self.world.ledger, rows, contracts, ordered, self._quiet, tuple(errors))

    async def _main(self) -> None:
        self._task = self._begin(self._run_schedule())
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    async def _run_schedule(self) -> None:
        self._begin(self._keep_keeper())
        for index in range(self._chance.randint(1, OTHERS_MAX) if self._swarm.second_owner else 0):
            self._begin(self._keep_other(index))
        clients = [self._begin(self._clients.run(number)) for number in range(self._clients.count)]
        injector = self._begin(self._injector.run())
        await asyncio.gather(*clients)
        await injector
        await self._wait_for_quiet()

    def _begin(self, work: Awaitable[None]) -> asyncio.Task[None]:
        return self._loop.create_task(work)  # type: ignore[arg-type]

    async def _keep_keeper(self) -> None:
        """Start a keeper, and a new one whenever it dies."""
        for number in range(1, 1000):
            for other in self.world.others:
                other.note.declared_dead = True  # a new keeper treats every earlier process as dead
            keeper = self.world.keeper = self._make(f"keeper{number}", keep=True)
            if keeper.life.dead:  # it died before the store was open
                await asyncio.sleep(0.02)
                continue
            if number > 1:
                self._injector.maybe_crash_recovery(keeper)
            await self._start(keeper)
            await keeper.died
            await asyncio.sleep(self._chance.choice((0.0, 0.02, 0.5)))

    async def _keep_other(self, index: int) -> None:
        """Run another engine on the same file. Its death is not detected: only its leases expire."""
        for number in range(1, 1000):
            await asyncio.sleep(self._chance.choice((0.1, 1.0, 5.0)))
            if self.world.calm:
                return
            other = self._make(f"other{index}.{number}", keep=False)
            # a keeper that has not started yet may treat this one as dead, too
            other.note.declared_dead = self.world.keeper is not None and not self.world.keeper.started
            if not other.life.dead:
                await self._start(other)
                await other.died

    def _make(self, name: str, keep: bool) -> Process:
        process = Process(self.world, name, keep)
        self.world.processes[process.life] = process
        try:
            process.open(self._injector.crash_after())
        except CannotOpen as error:
            self.world.errors.append(str(error))
            process.kill("cannot open the store")
            if self._task is not None:
                self._task.cancel()
        return process

    async def _start(self, process: Process) -> None:
        try:
            await process.call(process.start())
        except Died:
            pass
        except StoreBusy:
            process.kill("could not start")

    async def _wait_for_quiet(self) -> None:
        """Stop injecting faults: now all work must end."""
        self.world.calm = self.world.receivers.calm = True
        self._injector.end()
        self.world.ledger.log(self._loop.time(), "calm")
        began_s = self._loop.time()
        await self._injector.restore()
        quiet_max_s = BREAKER_QUIET_MAX_S if self._swarm.outages else QUIET_MAX_S
        while self._loop.time() < began_s + quiet_max_s:
            if self.world.observer.waiting() == (0, 0) and not self._spooled():
                self._quiet = True
                await self._check_for_leaks()
                return
            await asyncio.sleep(0.5)

    def _spooled(self) -> bool:
        return any(name.endswith(".evt") for name in os.listdir(self.world.workspace.spool))

    async def _check_for_leaks(self) -> None:
        """An engine learns by its next renewal which leases an operator ended; until then its counts may differ."""
        thaws = max((process.life.frozen_until for process in self.world.alive), default=0.0)
        await asyncio.sleep(max(0.0, thaws - self._loop.time()))  # a frozen process does not renew
        for _ in range(LEAK_CHECKS):
            at_work = [process for process in self.world.alive if process.started]
            self._leaks = [leak for process in at_work if (leak := process.leaked()) is not None]
            if not self._leaks:
                return
            await asyncio.sleep(1.0)

"""The world of one seed: clients, processes, receivers and faults; then a quiet phase in which all work must end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from random import Random

from holdfast.domain.errors import StoreBusy
from holdfast.domain.event import Event
from holdfast.proof.simulation.clients import Clients
from holdfast.proof.simulation.clock import LoopClock
from holdfast.proof.simulation.fault_injector import FaultInjector
from holdfast.proof.simulation.fixtures import CONTRACTS
from holdfast.proof.simulation.ledger import Case, Ledger
from holdfast.proof.simulation.loop import Life, SimLoop, Stuck
from holdfast.proof.simulation.mutants import Mutant
from holdfast.proof.simulation.observer import Observer
from holdfast.proof.simulation.process import CannotOpen, Died, Process
from holdfast.proof.simulation.receiver import Receivers
from holdfast.proof.simulation.swarm import Swarm
from holdfast.proof.simulation.workspace import VERSIONS, Workspace

QUIET_MAX_S = 200.0
BREAKER_QUIET_MAX_S = 3000.0
"""With breakers, events that always fail are retried one at a time, half a minute apart."""
LEAK_CHECKS = 12
OTHERS_MAX = 2


class World:
    """One schedule. All random choices come from the seed."""

    def __init__(self, chance: Random, swarm: Swarm, workspace: Workspace, mutant: Mutant, trace: bool = False) -> None:
        self.chance, self.swarm, self.workspace, self.mutant = chance, swarm, workspace, mutant
        self.loop = SimLoop(Random(chance.getrandbits(64)), shuffled=not swarm.unshuffled)
        self.loop.before_step = self._before_step
        self.clock = LoopClock(self.loop)
        self.ledger = Ledger(trace=[] if trace else None)
        self.receivers = Receivers(chance, swarm)
        self.observer = Observer(workspace.path, workspace.driver, self.ledger, self.note_change)
        self.calm = False
        self.changes_seen = 0
        self.processes: dict[Life, Process] = {}
        self.keeper: Process | None = None
        self.probers: dict[str, Process] = {}
        self.injector = FaultInjector(self)
        self.errors: list[str] = []
        self._clients = Clients(self)
        self._schedule_task: asyncio.Task[None] | None = None
        self._quiet = False
        self._leaks: list[str] = []

    def run(self) -> Case:
        if self.swarm.old_file and VERSIONS:
            self.workspace.make_old(self.chance.choice(VERSIONS), self._clients.old_facts())
        elif self.swarm.no_file:
            self.workspace.path.unlink()
        try:
            self.loop.run(self._main())
        except Stuck as error:
            self.errors.append(str(error))
        finally:
            for process in self.processes.values():
                process.abandon()
            self.errors += [f"delivery {id} changed without a recorded commit" for id in self.observer.missed()]
            self.errors += [f"at the end there is {what}" for what in self.observer.stray()]
            rows = self.observer.rows()
            self.observer.close()
        self.errors += self.loop.errors + self._leaks
        self.ledger.log(self.loop.time(), f"end after {self.loop.steps} steps")
        contracts = frozenset(contract.id for contract in CONTRACTS)
        ordered = frozenset(contract.id for contract in CONTRACTS if contract.is_ordered)
        return Case(self.ledger, rows, contracts, ordered, self._quiet, tuple(self.errors))

    async def _main(self) -> None:
        self._schedule_task = self._begin(self._run_schedule())
        await asyncio.wait([self._schedule_task])
        if not self._schedule_task.cancelled():
            self._schedule_task.result()

    async def _run_schedule(self) -> None:
        self._begin(self._keep_keeper())
        for index in range(self.chance.randint(1, OTHERS_MAX) if self.swarm.second_owner else 0):
            self._begin(self._keep_other(index))
        clients = [self._begin(self._clients.run(number)) for number in range(self._clients.count)]
        injector = self._begin(self.injector.run())
        await asyncio.gather(*clients)
        await injector
        await self._wait_for_quiet()

    def _begin(self, work: Awaitable[None]) -> asyncio.Task[None]:
        return self.loop.create_task(work)  # type: ignore[arg-type]

    @property
    def others(self) -> list[Process]:
        """The live processes that work on the file without being its keeper."""
        return [process for process in self.processes.values() if not process.keep and not process.life.dead]

    @property
    def alive(self) -> list[Process]:
        return [process for process in self.processes.values() if not process.life.dead]

    def any_process(self) -> Process | None:
        alive = self.alive
        return self.chance.choice(alive) if alive else None

    async def _keep_keeper(self) -> None:
        """Start a keeper, and a new one whenever it dies."""
        for number in range(1, 1000):
            for other in self.others:
                other.note.declared_dead = True  # a new keeper treats every earlier process as dead
            keeper = self.keeper = self._make(f"keeper{number}", keep=True)
            if keeper.life.dead:  # it died before the store was open
                await asyncio.sleep(0.02)
                continue
            if number > 1:
                self.injector.maybe_crash_recovery(keeper)
            await self._start(keeper)
            await keeper.died
            await asyncio.sleep(self.chance.choice((0.0, 0.02, 0.5)))

    async def _keep_other(self, index: int) -> None:
        """Run another engine on the same file. Its death is not detected: only its leases expire."""
        for number in range(1, 1000):
            await asyncio.sleep(self.chance.choice((0.1, 1.0, 5.0)))
            if self.calm:
                return
            other = self._make(f"other{index}.{number}", keep=False)
            # a keeper that has not started yet may treat this one as dead, too
            other.note.declared_dead = self.keeper is not None and not self.keeper.started
            if not other.life.dead:
                await self._start(other)
                await other.died

    def _make(self, name: str, keep: bool) -> Process:
        process = Process(self, name, keep)
        self.processes[process.life] = process
        try:
            process.open(self.injector.crash_after())
        except CannotOpen as error:
            self.errors.append(str(error))
            process.kill("cannot open the store")
            if self._schedule_task is not None:
                self._schedule_task.cancel()
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
        self.calm = self.receivers.calm = True
        self.injector.end()
        self.ledger.log(self.loop.time(), "calm")
        began_s = self.loop.time()
        await self.injector.restore()
        quiet_max_s = BREAKER_QUIET_MAX_S if self.swarm.outages else QUIET_MAX_S
        while self.loop.time() < began_s + quiet_max_s:
            if self.observer.waiting() == (0, 0) and not self._spooled():
                self._quiet = True
                await self._check_for_leaks()
                return
            await asyncio.sleep(0.5)

    def _spooled(self) -> bool:
        return any(name.endswith(".evt") for name in os.listdir(self.workspace.spool))

    async def _check_for_leaks(self) -> None:
        """An engine learns by its next renewal which leases an operator ended; until then its counts may differ."""
        thaws = max((process.life.frozen_until for process in self.alive), default=0.0)
        await asyncio.sleep(max(0.0, thaws - self.loop.time()))  # a frozen process does not renew
        for _ in range(LEAK_CHECKS):
            at_work = [process for process in self.alive if process.started]
            self._leaks = [leak for process in at_work if (leak := process.leaked()) is not None]
            if not self._leaks:
                return
            await asyncio.sleep(1.0)

    def note_change(self) -> None:
        """Count a change; duties poll faster after one."""
        self.changes_seen += 1

    def key_of(self, event: Event) -> str:
        return str(event.payload["key"])

    def drops_wake(self) -> bool:
        return self.swarm.drop_wakes and not self.calm and self.chance.random() < 0.7

    def is_busy(self) -> bool:
        return self.swarm.busy and not self.calm and self.chance.random() < 0.05

    def _before_step(self, life: Life) -> None:
        self.processes[life].before_step()

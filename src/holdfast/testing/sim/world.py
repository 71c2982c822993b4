"""The world of one seed: clients, processes, receivers and trouble; then calm, and the question whether all is well."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable
from pathlib import Path
from random import Random

from holdfast.domain.errors import StoreBusy
from holdfast.domain.event import Event, NewEvent
from holdfast.testing.prove.records import Accepted, Sent, digest_json
from holdfast.testing.prove.snapshot import read_store
from holdfast.testing.sim.clock import LoopClock
from holdfast.testing.sim.ledger import Case, Ledger
from holdfast.testing.sim.loop import Life, SimLoop, Stuck
from holdfast.testing.sim.mutants import Mutant
from holdfast.testing.sim.observer import Observer
from holdfast.testing.sim.process import Died, Process
from holdfast.testing.sim.receiver import Receivers
from holdfast.testing.sim.scene import CONTRACTS, STREAMS, draw_fact, killer_fact, lay_in_spool
from holdfast.testing.sim.swarm import Swarm, draw_swarm
from holdfast.testing.sim.trouble import Trouble

QUIET_MAX_S = 400.0
LEAK_LOOKS = 12


class World:
    """Everything of one schedule. All of its chance comes from the seed."""

    def __init__(self, seed: int, folder: Path, template: Path, mutant: Mutant, trace: bool = False) -> None:
        self.seed, self.mutant = seed, mutant
        self.chance = Random(seed)
        self.swarm: Swarm = draw_swarm(self.chance)
        self.loop = SimLoop(Random(self.chance.getrandbits(64)), shuffled=not self.swarm.unshuffled)
        self.loop.before_step = self._before_step
        self.clock = LoopClock(self.loop)
        self.ledger = Ledger(trace=[] if trace else None)
        self.receivers = Receivers(self.chance, self.swarm)
        self.path, self.spool = folder / "sim.db", folder / "spool"
        self.spool.mkdir()
        shutil.copyfile(template, self.path)
        self.observer = Observer(self.path, self.ledger)
        self.calm = False
        self.processes: dict[Life, Process] = {}
        self.keeper: Process | None = None
        self.second: Process | None = None
        self.trouble = Trouble(self)
        self._quiet = False
        self._leaks: list[str] = []

    def run(self) -> Case:
        errors: list[str] = []
        try:
            self.loop.run(self._main())
        except Stuck as error:
            errors.append(str(error))
        finally:
            for process in self.processes.values():
                if not process.life.dead:
                    process.life.dead = True
                    process.let_go()
            self.observer.close()
        errors += self.loop.errors + self._leaks
        self.ledger.log(self.loop.time(), f"end after {self.loop.steps} steps")
        contracts = frozenset(contract.id for contract in CONTRACTS)
        ordered = frozenset(contract.id for contract in CONTRACTS if contract.is_ordered)
        return Case(self.ledger, read_store(self.path), contracts, ordered, self._quiet, tuple(errors))

    async def _main(self) -> None:
        self._begin(self._keep_keeper())
        if self.swarm.second_owner:
            self._begin(self._keep_second())
        clients = [self._begin(self._client(number)) for number in range(self.chance.randint(1, 3))]
        trouble = self._begin(self.trouble.run())
        await asyncio.gather(*clients)
        await trouble
        await self._calm_down()

    def _begin(self, work: Awaitable[None]) -> asyncio.Task[None]:
        return self.loop.create_task(work)  # type: ignore[arg-type]

    async def _client(self, number: int) -> None:
        """Publishes facts, and asks again with the same key until it has an answer."""
        for i in range(self.chance.randint(2, 6)):
            await asyncio.sleep(self.chance.choice((0.0, 0.0, 0.05, 0.4, 1.5)))
            if self.swarm.spool and self.chance.random() < 0.4:
                self._spool(f"spool:{number}:{i}", number)
                continue
            facts = [self._fact(f"{number}:{i}:{j}") for j in range(self.chance.choice((1, 1, 3)))]
            await self._publish(facts)

    def _fact(self, key: str) -> NewEvent:
        stream = self.chance.choice((*STREAMS, None))
        if self.swarm.killer and not any(name.startswith("killer") for name in self.ledger.sent):
            key = f"killer:{key}"
            fact = killer_fact(key, stream)
        else:
            fact = draw_fact(self.chance, self.swarm, key, stream)
        self.ledger.sent[key] = Sent(key, stream, digest_json({"key": key, "kind": _kind(fact)}), self.ledger.next_n())
        return fact

    def _spool(self, key: str, number: int) -> None:
        stream, id = f"spool:{number}", f"evt_{self.chance.getrandbits(96):024x}"
        fact = draw_fact(self.chance, Swarm(), key, stream)
        self.ledger.sent[key] = Sent(key, stream, digest_json({"key": key, "kind": "good"}), self.ledger.next_n())
        lay_in_spool(self.spool, fact, id, self.clock, self.chance)
        self.ledger.spooled.append((id, key, stream))
        if self.keeper is not None:
            self.trouble.disturb_import(self.keeper)

    async def _publish(self, facts: list[NewEvent]) -> None:
        while True:
            process = self._anyone()
            if process is not None:
                try:
                    answers = await process.call(process.store.events.append(facts))
                    break
                except (Died, StoreBusy):
                    self.ledger.fault("client without an answer")
            await asyncio.sleep(0.05)
        for fact, answer in zip(facts, answers, strict=True):
            key = fact.dedup_key or ""
            line = Accepted(key, answer.id, answer.stream, answer.seq, answer.duplicate, self.ledger.next_n())
            self.ledger.accepted.append(line)
            self.ledger.log(self.loop.time(), f"accepted {key} as {answer.id} {answer.stream} {answer.seq}")

    def _anyone(self) -> Process | None:
        alive = [process for process in (self.keeper, self.second) if process is not None and not process.life.dead]
        return self.chance.choice(alive) if alive else None

    def _at_work(self) -> list[Process]:
        return [process for process in self.processes.values() if process.started and not process.life.dead]

    async def _keep_keeper(self) -> None:
        """Start a keeper, and another one whenever it dies."""
        for number in range(1, 1000):
            if self.second is not None and not self.second.life.dead:
                self.second.note.suspended = True  # a fresh keeper takes everybody before it for dead
            keeper = self.keeper = self._open(f"keeper{number}", keep=True)
            if number > 1:
                self.trouble.disturb_recovery(keeper)
            await self._start(keeper)
            await keeper.died
            await asyncio.sleep(self.chance.choice((0.0, 0.02, 0.5)))

    async def _keep_second(self) -> None:
        """A second engine on the same file. Its death is noticed by nobody: only its leases end."""
        for number in range(1, 1000):
            await asyncio.sleep(self.chance.choice((0.1, 1.0, 5.0)))
            if self.calm:
                return
            second = self.second = self._open(f"second{number}", keep=False)
            second.note.suspended = self.keeper is not None and not self.keeper.started  # who may yet take it for dead
            await self._start(second)
            await second.died

    def _open(self, name: str, keep: bool) -> Process:
        process = Process(self, name, keep)
        self.processes[process.life] = process
        return process

    async def _start(self, process: Process) -> None:
        try:
            await process.call(process.start())
        except Died:
            pass
        except StoreBusy:
            process.kill("could not start")

    async def _calm_down(self) -> None:
        """No more trouble: now everything must come to its end."""
        self.calm = self.receivers.calm = True
        self.trouble.end()
        self.ledger.log(self.loop.time(), "calm")
        began_s = self.loop.time()
        await self.trouble.restore()
        while self.loop.time() < began_s + QUIET_MAX_S:
            if self.observer.waiting() == (0, 0) and not any(name.endswith(".evt") for name in os.listdir(self.spool)):
                self._quiet = True
                await self._look_for_leaks()
                return
            await asyncio.sleep(0.5)

    async def _look_for_leaks(self) -> None:
        """With its next renewal at the latest an engine learns what an operator took out of its hands."""
        for _ in range(LEAK_LOOKS):
            self._leaks = [leak for process in self._at_work() if (leak := process.leaked()) is not None]
            if not self._leaks:
                return
            await asyncio.sleep(1.0)

    def key_of(self, event: Event) -> str:
        return str(event.payload["key"])

    def drops_wake(self) -> bool:
        return self.swarm.drop_wakes and not self.calm and self.chance.random() < 0.7

    def is_busy(self) -> bool:
        return self.swarm.busy and not self.calm and self.chance.random() < 0.03

    def _before_step(self, life: Life) -> None:
        self.processes[life].before_step()


def _kind(fact: NewEvent) -> str:
    return next(kind for kind in ("killer", "poison", "reject", "good") if f'"{kind}"'.encode() in fact.payload)

"""What the parts of a simulated process share: time, chance, the store's files, receivers, and the record of all."""

from __future__ import annotations

from random import Random
from typing import NoReturn, Protocol

from holdfast.domain.event import Event
from holdfast.proof.simulation.clock import LoopClock, SkewedClock
from holdfast.proof.simulation.ledger import Ledger, LifeRecord
from holdfast.proof.simulation.loop import Life, SimLoop
from holdfast.proof.simulation.mutants import Mutant
from holdfast.proof.simulation.observer import Observer
from holdfast.proof.simulation.receivers import Receivers
from holdfast.proof.simulation.swarm import Swarm
from holdfast.proof.simulation.workspace import Workspace


class SimulatedProcess(Protocol):
    """A process, as its own parts and the faults see it."""

    name: str
    keep: bool
    life: Life
    note: LifeRecord
    clock: SkewedClock

    @property
    def world(self) -> Environment: ...

    def log(self, line: str) -> None: ...

    def crash(self, why: str) -> NoReturn: ...


class Faults(Protocol):
    """The faults that strike at a certain point of a process's work."""

    def draw_skew_ms(self) -> int: ...

    def maybe_freeze(self, target: SimulatedProcess) -> None: ...

    def maybe_crash_after_import(self, keeper: SimulatedProcess) -> None: ...


class Environment:
    """One schedule, without its processes. All random choices come from the seed."""

    injector: Faults

    def __init__(self, chance: Random, swarm: Swarm, workspace: Workspace, mutant: Mutant, trace: bool = False) -> None:
        self.chance, self.swarm, self.workspace, self.mutant = chance, swarm, workspace, mutant
        self.loop = SimLoop(Random(chance.getrandbits(64)), shuffled=not swarm.unshuffled)
        self.clock = LoopClock(self.loop)
        self.ledger = Ledger(trace=[] if trace else None)
        self.receivers = Receivers(chance, swarm)
        self.observer = Observer(workspace.path, workspace.driver, self.ledger, self.note_change)
        self.calm = False
        self.changes_seen = 0
        self.probers: dict[str, SimulatedProcess] = {}
        self.errors: list[str] = []

    def note_change(self) -> None:
        """Count a change; duties poll faster after one."""
        self.changes_seen += 1

    def key_of(self, event: Event) -> str:
        return str(event.payload["key"])

    def drops_wake(self) -> bool:
        return self.swarm.drop_wakes and not self.calm and self.chance.random() < 0.7

    def is_busy(self) -> bool:
        return self.swarm.busy and not self.calm and self.chance.random() < 0.05

"""The world of one schedule: its environment and its processes."""

from __future__ import annotations

from random import Random

from holdfast.proof.simulation.environment import Environment
from holdfast.proof.simulation.loop import Life
from holdfast.proof.simulation.mutants import Mutant
from holdfast.proof.simulation.process import Process
from holdfast.proof.simulation.swarm import Swarm
from holdfast.proof.simulation.workspace import Workspace


class World(Environment):
    def __init__(self, chance: Random, swarm: Swarm, workspace: Workspace, mutant: Mutant, trace: bool = False) -> None:
        super().__init__(chance, swarm, workspace, mutant, trace)
        self.processes: dict[Life, Process] = {}
        self.keeper: Process | None = None
        self.loop.before_step = lambda life: self.processes[life].before_step()

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

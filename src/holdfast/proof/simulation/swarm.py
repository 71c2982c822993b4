"""Swarm testing: each seed enables a random subset of the faults, so that they do not mask one another."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random


@dataclass(frozen=True)
class Swarm:
    """One switch for each kind of fault. The order of the fields is part of the meaning of a seed."""

    crash_commit: bool = False
    crash_step: bool = False
    crash_recovery: bool = False
    crash_opening: bool = False
    no_file: bool = False
    old_file: bool = False
    stops: bool = False
    reboot: bool = False
    freeze: bool = False
    drop_wakes: bool = False
    wall_steps: bool = False
    skew: bool = False
    slow: bool = False
    lost_replies: bool = False
    lying: bool = False
    throttles: bool = False
    server_errors: bool = False
    redirects: bool = False
    outages: bool = False
    rejects: bool = False
    poison: bool = False
    killer: bool = False
    second_owner: bool = False
    batch_of_one: bool = False
    busy: bool = False
    operator: bool = False
    contract_changes: bool = False
    pauses: bool = False
    spool: bool = False
    lost_answers: bool = False
    crowd: bool = False
    unshuffled: bool = False

    @property
    def needs_own_file(self) -> bool:
        """Whether the file must be created or migrated."""
        return self.no_file or self.old_file

    @property
    def names(self) -> list[str]:
        return [field.name for field in fields(self) if getattr(self, field.name)]


RARE = {"slow": 0.15, "freeze": 0.2, "killer": 0.15, "second_owner": 0.25, "reboot": 0.15, "unshuffled": 0.2,
        "crowd": 0.25, "crash_opening": 0.1, "no_file": 0.05, "old_file": 0.05, "stops": 0.2, "skew": 0.2,
        "outages": 0.2}  # fmt: skip
USUAL = 0.35


def draw_swarm(chance: Random) -> Swarm:
    """A random subset. Faults that cost much virtual time are rarer."""
    return Swarm(**{field.name: chance.random() < RARE.get(field.name, USUAL) for field in fields(Swarm)})

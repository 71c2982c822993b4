"""What the engine has in hand: claims, and the lines in which they wait for a worker, one to a queue."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from holdfast.domain.contract import Terms
from holdfast.domain.delivery import Claim, Outcome
from holdfast.egress.gatekeeper import Gatekeeper


@dataclass(slots=True)
class Held:
    """A claim in our hands."""

    claim: Claim
    kind: str
    terms: Terms
    claimed_at_ms: int
    lease_until_ms: int
    started_at_ms: int = 0
    deadline_ms: int = 0
    worker: asyncio.Task[None] | None = None
    late: bool = False
    lost: bool = False
    ended: bool = False
    gate: Gatekeeper | None = None

    def leave_gate(self, outcome: Outcome | None = None) -> None:
        """Make room for the next at its address; `outcome` is how this one's attempt ended, if it had one."""
        gate, self.gate = self.gate, None
        if gate is not None:
            if outcome is not None:
                gate.ended(self.claim.delivery.address, outcome)
            gate.leave(self.claim.delivery.address)

    @property
    def cut_off(self) -> bool:
        """Told to stop already. Telling it twice would end its worker, which others wait for, and not only the work."""
        return self.late or self.lost


@dataclass(slots=True)
class Line:
    """One queue's work in this process: what waits, how many may work at a time, and how much to ask for."""

    window: int
    concurrency: int
    waiting: deque[Held] = field(default_factory=deque)
    held: int = 0
    workers: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def is_hungry(self) -> bool:
        """Whether more could be done at once than there is to do."""
        return not self.waiting and len(self.workers) < self.concurrency

"""What the engine holds: claims, and the lines in which they wait for a worker, one line for each queue."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.domain.contract import Terms
from holdfast.domain.delivery import Claim, Outcome
from holdfast.egress.gatekeeper import Gatekeeper


class AttemptTimer(Protocol):
    """Counts the time of attempts."""

    def start(self, held: Held) -> None:
        """From now on the attempt has the time that its contract's terms give it."""


class Attempt(Protocol):
    """An attempt as its deliverer sees it. Its time is counted from its start unless the deliverer says otherwise."""

    def waits(self) -> None: ...
    def begins(self, in_thread: bool = False) -> None: ...
    def leaves_thread(self) -> None: ...


class Untimed:
    """An attempt outside the engine: nothing counts its time."""

    def waits(self) -> None:
        pass

    def begins(self, in_thread: bool = False) -> None:
        pass

    def leaves_thread(self) -> None:
        pass


UNTIMED = Untimed()


@dataclass(slots=True)
class Held:
    """A claim that this process holds, and the attempt under way for it."""

    claim: Claim
    kind: str
    terms: Terms
    claimed_at_ms: int
    lease_ms: int
    lease_until_ms: int
    timer: AttemptTimer
    started_at_ms: int = 0
    deadline_ms: int | None = None  # on the boot clock; None: the attempt's time is not counted
    worker: asyncio.Task[None] | None = None
    in_thread: bool = False  # a plain function runs for it, which nothing can stop
    late: bool = False
    lost: bool = False
    overdue: bool = False  # past its deadline and still running, which was logged
    ended: bool = False
    error: BaseException | None = None  # what the deliverer raised, for the log
    gate: Gatekeeper | None = None

    def waits(self) -> None:
        """The attempt waits for a place in this process: that time is not the receiver's."""
        self.deadline_ms = None

    def begins(self, in_thread: bool = False) -> None:
        """The attempt begins now: its time is counted from here."""
        self.in_thread = in_thread
        self.timer.start(self)

    def leaves_thread(self) -> None:
        self.in_thread = False

    @property
    def renew_at_ms(self) -> float:
        """When the lease is to be prolonged: a quarter of its time after it was granted."""
        return math.inf if self.lost else self.lease_until_ms - self.lease_ms * 3 // 4

    @property
    def is_running(self) -> bool:
        return self.in_thread or (self.worker is not None and not self.worker.done())

    def leave_gate(self, outcome: Outcome | None = None) -> None:
        """Make room for the next at its address; `outcome` is how this one's attempt ended, if it had one."""
        gate, self.gate = self.gate, None
        if gate is not None:
            if outcome is not None:
                gate.ended(self.claim.delivery.address, outcome)
            gate.leave(self.claim.delivery.address)

    @property
    def cut_off(self) -> bool:
        """Cancelled already. A second cancellation would end the worker too, which other claims wait for."""
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

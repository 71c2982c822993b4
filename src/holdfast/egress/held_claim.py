"""A claim that this process holds, and the attempt that is made for it."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Protocol

from holdfast.domain.contract import Terms
from holdfast.domain.delivery import Claim, Outcome
from holdfast.egress.gatekeeper import Gatekeeper


class AttemptTimer(Protocol):
    """Sets the deadlines of attempts."""

    def start(self, held: HeldClaim) -> None:
        """Set the deadline to the timeout of the contract's terms from now."""


@dataclass(slots=True)
class HeldClaim:
    """A claim with its lease, its deadline, and the worker that carries it out.

    Implements `Attempt`, which is what the deliverer sees of it.
    """

    claim: Claim
    kind: str
    terms: Terms
    claimed_at_ms: int
    lease_ms: int
    lease_until_ms: int  # on the boot clock
    timer: AttemptTimer
    started_at_ms: int = 0
    deadline_ms: int | None = None  # on the boot clock; None: the timeout is paused
    worker: asyncio.Task[None] | None = None
    in_thread: bool = False  # a plain function runs for it, which cannot be cancelled
    late: bool = False  # cancelled because its deadline passed
    lost: bool = False  # the lease belongs to another process
    overdue: bool = False  # past its deadline and still running, which was logged
    ended: bool = False
    error: BaseException | None = None  # raised by the deliverer, for the log
    gate: Gatekeeper | None = None

    def pause_timeout(self) -> None:
        self.deadline_ms = None

    def start_timeout(self, in_thread: bool = False) -> None:
        self.in_thread = in_thread
        self.timer.start(self)

    def leave_thread(self) -> None:
        self.in_thread = False

    @property
    def renew_at_ms(self) -> float:
        """When the lease is due for renewal: a quarter of its duration after it was granted."""
        return math.inf if self.lost else self.lease_until_ms - self.lease_ms * 3 // 4

    @property
    def is_running(self) -> bool:
        return self.in_thread or (self.worker is not None and not self.worker.done())

    @property
    def is_cancelled(self) -> bool:
        """Cancelled already. A second cancellation would end the worker too, which other claims wait for."""
        return self.late or self.lost

    def lose(self) -> None:
        """The lease belongs to another process: cancel the attempt if it has begun. Its outcome is not applied.

        An attempt that has ended is left alone, because its settlement is fenced by the lease token: a renewal at the
        same time as the settlement finds no lease because the delivery was settled.
        """
        if self.ended:
            return
        if self.worker is not None and not self.is_cancelled:
            self.worker.cancel()
        self.lost = True

    def leave_gatekeeper(self, outcome: Outcome | None = None) -> None:
        """Free its place at the address. `outcome` is how the attempt ended, None if there was none."""
        gate, self.gate = self.gate, None
        if gate is not None:
            if outcome is not None:
                gate.ended(self.claim.delivery.address, outcome)
            gate.leave(self.claim.delivery.address)

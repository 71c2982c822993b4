"""Workers: carry out held claims, a bounded number at a time per queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from holdfast.domain.delivery import Outcome, Retry, crash_loop
from holdfast.egress.attempt_log import describe
from holdfast.egress.deliverer import Deliverer
from holdfast.egress.held_claim import AttemptTimer, HeldClaim
from holdfast.egress.local_queue import LocalQueue
from holdfast.ports import Clock
from holdfast.store.roles.deliveries import Deliveries

log = logging.getLogger("holdfast.engine")

Finished = tuple[HeldClaim, Outcome]


class Workers:
    """Runs a task per worker; a worker ends when its queue is empty.

    `finished` holds outcomes that are not settled yet, `returned` claims whose attempt did not begin. The engine takes
    both with its next tick; `wake` asks for one.
    """

    def __init__(
        self, deliverers: Mapping[str, Deliverer], deliveries: Deliveries, clock: Clock, timer: AttemptTimer
    ) -> None:
        self._deliverers, self._deliveries, self._clock, self._timer = deliverers, deliveries, clock, timer
        self.finished: list[Finished] = []
        self.returned: list[HeldClaim] = []
        self.wake: Callable[[], None] = lambda: None

    def start(self, queue: LocalQueue) -> None:
        """Start as many workers as the queue has claims for and its concurrency allows."""
        missing = min(len(queue.waiting), queue.concurrency - len(queue.workers))
        for _ in range(missing):
            worker = asyncio.get_running_loop().create_task(self._work(queue))
            queue.workers.add(worker)
            worker.add_done_callback(queue.workers.discard)

    def take_finished(self) -> list[Finished]:
        finished, self.finished = self.finished, []
        return finished

    async def _work(self, queue: LocalQueue) -> None:
        """Carry out the claims that wait in one queue, one after another."""
        worker = asyncio.current_task()
        while queue.waiting:
            held = queue.waiting.popleft()
            if self._is_free(held) or await self._may_begin(held):
                outcome = await self.attempt(held, worker)
                if held.gate is not None:
                    held.leave_gatekeeper(None if held.lost else outcome)
                held.ended = True
                self.finished.append((held, outcome))
            else:
                self.returned.append(held)
            self.wake()
        if worker is not None:  # at once: `start` must not count a worker that takes no more claims
            queue.workers.discard(worker)

    def _is_free(self, held: HeldClaim) -> bool:
        """Whether the attempt may begin at once, as nearly all may: fresh lease, no rate limit, closed breaker."""
        if self._clock.boot_ms() >= held.lease_until_ms:
            return False
        gate = held.gate
        return gate is None or (not held.terms.interval_us and not gate.is_blocked(held.claim.delivery.address))

    async def _may_begin(self, held: HeldClaim) -> bool:
        """Wait for the slot that a rate limit allows. False: the claim is given back, and its start is not counted."""
        gate, address = held.gate, held.claim.delivery.address
        try:
            if gate is not None and held.terms.interval_us:
                await gate.wait_for_slot(address, held.terms.interval_us)
            await self._check_lease(held)
        except Exception as error:  # the store cannot be reached; another claim may succeed later
            log.warning("delivery %d given back before its attempt began: %s", held.claim.delivery.id, describe(error))
            return False
        return gate is None or not gate.is_blocked(address)

    async def _check_lease(self, held: HeldClaim) -> None:
        """Renew a lease that has passed, after a pause of the process or a long wait, and note whether it was lost."""
        now_ms = self._clock.boot_ms()
        if now_ms >= held.lease_until_ms:
            lost = await self._deliveries.renew([held.claim], held.lease_ms)
            held.lease_until_ms = now_ms + held.lease_ms
            held.lost = held.lost or bool(lost)

    async def attempt(self, held: HeldClaim, worker: asyncio.Task[None] | None) -> Outcome:
        """Make one attempt. Whatever the deliverer raises becomes an outcome, unless the worker itself is cancelled."""
        held.started_at_ms = self._clock.now_ms()
        claim = held.claim
        if held.lost:
            return Retry("the lease was lost before the attempt began")
        if (dead := crash_loop(claim)) is not None:
            return dead
        held.worker = worker
        self._timer.start(held)
        try:
            outcome = await self._deliverers[held.kind].deliver(claim, held)
        except asyncio.CancelledError as error:
            if worker is not None and not worker.cancelling():
                held.error = error
                return Retry("CancelledError: the handler was not cancelled by Holdfast, but raised it itself")
            if worker is None or not held.is_cancelled or worker.uncancel() > 0:
                raise
            return Retry(f"timed out after {held.terms.timeout_s:g} s")
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: a handler must not end the daemon
            outcome = Retry(describe(error))
            held.error = error
        finally:
            held.worker = None
        if held.is_cancelled and worker is not None:
            worker.uncancel()  # the handler ignored its cancellation and ended by itself
        return outcome

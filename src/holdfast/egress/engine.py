"""The engine: the lease loop for every kind of address. Claims deliveries, has them carried out, settles outcomes.

Each tick settles the attempts that have ended and claims new deliveries, in one commit. The attempts run in `Workers`,
a bounded number per queue; `LocalQueue` decides how many deliveries of a queue are claimed at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.domain.address import kind_of
from holdfast.domain.contract import Terms
from holdfast.domain.delivery import (
    SUSPECT_STARTS,
    Claim,
    Delivered,
    Outcome,
    Retry,
    Settlement,
    Transition,
    settlement_of,
)
from holdfast.domain.event import NewEvent
from holdfast.domain.states import State
from holdfast.egress.attempt_log import AttemptLog
from holdfast.egress.deadlines import Deadlines
from holdfast.egress.deliverer import Deliverer
from holdfast.egress.gatekeeper import Gatekeeper
from holdfast.egress.held_claim import HeldClaim
from holdfast.egress.lease_renewal import LeaseRenewal, lease_times_ms
from holdfast.egress.local_queue import STALE_MS, LocalQueue
from holdfast.egress.router_intake import RouterIntake
from holdfast.egress.workers import Finished, Workers
from holdfast.ports import NO_COUNTERS, NO_TRACING, Chance, Clock, Counters, Tracing
from holdfast.store.roles.deliveries import BATCH_MAX, ClaimRequest, Deliveries, Served
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.routing import LeaseOffer, Plan, RouteTarget

CLAIM_MAX = 768
QUEUES_MAX = 1000
POLL_S = 1.0
CANCEL_S = 0.5


class Engine:
    """Holds at most `capacity` claims. `terms_of` gives the terms of a contract, or the defaults of an address kind.

    `delivery_dead` makes the event that is appended in the transaction that settles a delivery as dead. Nothing of
    `blocked_queues` is claimed. `deadlines` and `renewal` are background duties of their own.
    """

    name = "engine"

    def __init__(
        self,
        deliveries: Deliveries,
        owner: Owner,
        deliverers: Mapping[str, Deliverer],
        terms_of: Callable[[str | None, str], Terms],
        clock: Clock,
        chance: Chance,
        *,
        capacity: int = 1000,
        poll_s: float = POLL_S,
        gatekeeper: Gatekeeper | None = None,
        delivery_dead: Callable[[Claim, Transition], NewEvent | None] | None = None,
        blocked_queues: Callable[[], Iterable[int]] = tuple,
        counters: Counters = NO_COUNTERS,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._deliveries, self._owner, self._deliverers = deliveries, owner, deliverers
        self._terms_of, self._clock, self._chance, self._capacity = terms_of, clock, chance, capacity
        self._poll_s, self._gatekeeper, self._delivery_dead = poll_s, gatekeeper, delivery_dead
        self._blocked_queues, self._counters, self._tracing = blocked_queues, counters, tracing
        self._lease_ms = lease_times_ms()
        self._held: dict[int, HeldClaim] = {}
        self._queues: dict[int, LocalQueue] = {}
        self._refused: list[Claim] = []  # claimed, but not admitted by the gatekeeper; to be given back
        self._intake = RouterIntake()
        self._stopping = False
        self._turn = asyncio.Lock()
        self._after_queue = 0
        self._log = AttemptLog()
        self.deadlines = Deadlines(self._held, clock, self._log)
        self.renewal = LeaseRenewal(self._held, deliveries, clock, self._lease_ms)
        self._workers = Workers(deliverers, deliveries, clock, self.deadlines)
        self.busy = threading.Event()
        """Set while any claim is held, for a monitor of the event loop in another thread."""
        self.delivered = 0
        self.failed = 0
        self.leases_lost = 0

    @property
    def wake(self) -> Callable[[], None]:
        """Called when an attempt has ended, to ask for a tick."""
        return self._workers.wake

    @wake.setter
    def wake(self, wake: Callable[[], None]) -> None:
        self._workers.wake = wake

    async def tick(self) -> float | None:
        """Settle and claim in one commit; the seconds until something is due."""
        async with self._turn:
            return await self._tick()

    async def _tick(self) -> float | None:
        await self._give_back()
        finished = self._workers.take_finished()
        ending = [held for held, _ in finished]
        settled, claimed = await asyncio.gather(self._settle(finished), self._claim(ending), return_exceptions=True)
        if isinstance(settled, BaseException):
            self._workers.finished[:0] = finished  # to be settled with the next tick
        delay: float | None = self._poll_s
        if not isinstance(claimed, BaseException):
            delay = claimed
        for error in (settled, claimed):
            if isinstance(error, BaseException):
                raise error
        return 0.0 if self._workers.finished else delay

    async def _give_back(self) -> None:
        """Release claims that must not be tried now: their address is blocked. Their start is not counted.

        A release that fails is repeated with the next tick, because only this list knows of these leases.
        """
        while self._refused:
            refused = list(self._refused)
            await self._deliveries.release(refused)
            del self._refused[: len(refused)]
        while self._workers.returned:
            returned = list(self._workers.returned)
            await self._deliveries.release([held.claim for held in returned])
            del self._workers.returned[: len(returned)]
            for held in returned:
                self._forget(held)

    async def stop(self, grace_s: float) -> list[Claim]:
        """Stop claiming, give back claims that wait, and let running attempts finish for up to `grace_s`.

        The claims returned could not be stopped: they run until the process ends, and keep their leases until then.
        """
        self._stopping = True
        async with self._turn:  # wait for a claim under way: its leases are known nowhere else
            waiting = [held for queue in self._queues.values() for held in queue.waiting]
            for queue in self._queues.values():
                queue.waiting.clear()
            if waiting:
                await self._deliveries.release([held.claim for held in waiting])
                for held in waiting:
                    self._forget(held)
        workers = {worker for queue in self._queues.values() for worker in queue.workers}
        if workers:
            await asyncio.wait(workers, timeout=grace_s)
        for worker in workers:
            worker.cancel()
        if workers:  # not gather: a coroutine may ignore its cancellation
            await asyncio.wait(workers, timeout=CANCEL_S)
        async with self._turn:
            await self._settle(self._workers.take_finished())
            await self._give_back()
        running = [held.claim for held in self._held.values() if held.is_running]
        stopped = [held.claim for held in self._held.values() if not held.is_running]
        # Interrupted by a stop, not by a crash: the start does not count towards a crash loop.
        if stopped:
            await self._deliveries.release(stopped)
        if running:
            await self._deliveries.uncount_starts(running)
        for deliverer in self._deliverers.values():
            await deliverer.close()
        return running

    @property
    def in_flight(self) -> int:
        return len(self._held)

    @property
    def held_ids(self) -> list[int]:
        """The deliveries that this process holds. Their leases are its own, even if it was suspended past their end."""
        return [id for id, held in self._held.items() if not held.lost]

    def running(self) -> list[Claim]:
        """The claims whose attempts are running."""
        return [held.claim for held in list(self._held.values()) if held.is_running]

    def claim_of(self, task: object) -> Claim | None:
        """The claim that a task carries out; None if the task is not one of the engine's workers."""
        return next((held.claim for held in list(self._held.values()) if held.worker is task), None)

    async def _settle(self, finished: list[Finished]) -> None:
        """Write the outcomes. An attempt whose lease was lost is counted, and its outcome is not applied."""
        if not finished:
            return
        now_ms = self._clock.now_ms()
        ours = [(held, outcome) for held, outcome in finished if self._is_ours(held)]
        settlements = [self._settlement(held, outcome, now_ms) for held, outcome in ours]
        lost = await self._deliveries.settle(self._owner, settlements) if settlements else set()
        self.leases_lost += len(finished) - len(ours)
        self._counters.settled(settlements, lost, now_ms)
        self._tracing.settled(settlements, lost, now_ms)
        if len(ours) < len(finished):
            self._counters.leases(lost=len(finished) - len(ours))
        for (held, outcome), settlement in zip(ours, settlements, strict=True):
            if held.claim.delivery.id in lost:
                self.leases_lost += 1
            elif isinstance(outcome, Delivered):
                self.delivered += 1
            else:
                self.failed += 1
                self._log.ended(held, settlement.transition, now_ms)
        for held, _ in finished:
            self._forget(held)
        self._intake.freed()

    def _is_ours(self, held: HeldClaim) -> bool:
        """Whether, as far as this process knows, it still has the lease: not lost, and not claimed again."""
        return not held.lost and self._held.get(held.claim.delivery.id) is held

    def _settlement(self, held: HeldClaim, outcome: Outcome, now_ms: int) -> Settlement:
        chance = self._chance.fraction() if isinstance(outcome, Retry) else 0.0
        settlement = settlement_of(held.claim, outcome, held.terms.policy, now_ms, chance, held.started_at_ms)
        if settlement.transition.state is State.DEAD and self._delivery_dead is not None:
            event = self._delivery_dead(held.claim, settlement.transition)
            return settlement._replace(effects=() if event is None else (event,))
        return settlement

    async def _claim(self, ending: list[HeldClaim]) -> float | None:
        """Claim up to the capacity; the seconds until the next delivery is due.

        Claims that are `ending` count as settled already: their settlement is in the same commit.
        """
        free = self._free + len(ending)
        if self._stopping or free <= 0:
            return self._poll_s
        request = ClaimRequest(
            owner=self._owner.id,
            served=self._served(),
            limit=min(CLAIM_MAX, free),
            lease_ms=self._lease_ms,
            capacity=self._free_places(ending),
            capacity_default={kind: self._terms_of(None, kind).concurrency for kind in self._lease_ms},
            after_queue=self._after_queue,
            suspects=_suspects(self._held.values()) == _suspects(ending),
        )
        asked_ms = self._clock.boot_ms()  # the lease began no earlier
        claimed = await self._deliveries.claim(request)
        self._after_queue = claimed.after_queue
        self._intake.note_claim(request, claimed)
        self._begin(claimed.claims, asked_ms)
        await self._give_back()
        if claimed.held_back and ending:  # the store may have claimed before it settled
            return 0.0
        if claimed.next_due_ms is None:
            return self._poll_s
        return min(self._poll_s, max(0.0, (claimed.next_due_ms - self._clock.now_ms()) / 1000))

    def _begin(self, claims: Sequence[Claim], asked_ms: int) -> None:
        """Hold claims, and start workers for them."""
        now_ms = self._clock.now_ms()
        by_queue: defaultdict[int, list[Claim]] = defaultdict(list)
        for claim in claims:
            by_queue[claim.queue].append(claim)
        for queue, some in by_queue.items():
            self._refused += self._accept(queue, some, now_ms, asked_ms)
            self._workers.start(self._queues[queue])

    @property
    def _free(self) -> int:
        return self._capacity - len(self._held) - self._intake.reserved

    async def wait_for_places(self) -> None:
        """Wait a short time until the deliveries of a batch of the router can begin at once."""
        await self._intake.wait(lambda: self._free >= min(BATCH_MAX, self._capacity))

    def offer(self, plans: Sequence[Plan]) -> LeaseOffer | None:
        """Reserve places for deliveries that the router of this process is about to create."""
        if self._stopping:
            return None
        free = min(CLAIM_MAX, self._free)
        return self._intake.offer(self._owner.id, plans, free, self._places_for, self._clock.boot_ms())

    def _places_for(self, target: RouteTarget) -> tuple[int, int]:
        """How many deliveries of a queue can begin now, and for how many milliseconds they are leased."""
        served = self._served()
        if target.queue is None or target.queue in self._blocked_queues() or target.address in served.blocked:
            return 0, 0
        if target.kind not in served.kinds and target.address not in served.addresses:
            return 0, 0
        queue = self._queues.get(target.queue)
        places = queue.free_places(0) if queue else self._terms_of(target.contract_id, target.kind).concurrency
        return places, self._lease_ms[target.kind]

    def take(self, offer: LeaseOffer, claims: Sequence[Claim]) -> None:
        """End the reservation, and begin the deliveries that were leased for it."""
        self._intake.end(offer)
        self._begin(claims, offer.asked_ms)
        if self._refused:
            self.wake()

    def _served(self) -> Served:
        whole: set[str] = set()
        single: set[str] = set()
        for kind, deliverer in self._deliverers.items():
            addresses = deliverer.serves()
            if addresses is None:
                whole.add(kind)
            else:
                single.update(addresses)
        blocked = frozenset[str]() if self._gatekeeper is None else self._gatekeeper.blocked()
        return Served(frozenset(whole), frozenset(single), blocked)

    def _free_places(self, ending: Iterable[HeldClaim]) -> dict[int, int]:
        """How many more deliveries of each queue may be claimed, by the windows of the queues."""
        now_ms = self._clock.now_ms()
        ended: Counter[int] = Counter()
        quick: set[int] = set()
        for held in ending:
            ended[held.claim.queue] += 1
            if now_ms - held.claimed_at_ms <= STALE_MS:
                quick.add(held.claim.queue)
        if len(self._queues) > QUEUES_MAX:  # each direct address has a queue; an idle one starts again from defaults
            self._queues = {id: queue for id, queue in self._queues.items() if queue.is_in_use}
        places = {}
        for id, queue in self._queues.items():
            queue.adapt_window(id in quick, now_ms)
            places[id] = max(0, queue.free_places(ended[id]) - self._intake.reserved_for(id))
        for id in self._blocked_queues():
            places[id] = 0
        return places

    def _accept(self, queue_id: int, claims: Sequence[Claim], now_ms: int, asked_ms: int) -> list[Claim]:
        """Hold the claims of one queue, which have one address and contract. Returns those that are not admitted."""
        address, contract_id = claims[0].delivery.address, claims[0].delivery.contract_id
        kind = kind_of(address)
        terms = self._terms_of(contract_id, kind.name)
        gate = self._gatekeeper if kind.gated else None
        lease_ms = self._lease_ms[kind.name]
        until_ms = asked_ms + lease_ms
        queue = self._queue(queue_id, terms.concurrency)
        refused: list[Claim] = []
        for claim in claims:
            if gate is not None and not gate.admit(address, terms.interval_us):
                refused.append(claim)
                continue
            if before := self._held.get(claim.delivery.id):
                before.lose()  # after a suspension longer than a lease, a delivery still held may be claimed again
            held = self._held[claim.delivery.id] = HeldClaim(
                claim, kind.name, terms, now_ms, lease_ms, until_ms, self.deadlines, gate=gate
            )
            queue.waiting.append(held)
            queue.held_count += 1
        if self._held and not self.busy.is_set():
            self.busy.set()
            self.renewal.wake()
        return refused

    def _queue(self, id: int, concurrency: int) -> LocalQueue:
        queue = self._queues.get(id)
        if queue is None:
            queue = self._queues[id] = LocalQueue(window=concurrency, concurrency=concurrency)
        queue.concurrency = concurrency
        return queue

    def _forget(self, held: HeldClaim) -> None:
        if held.gate is not None:
            held.leave_gatekeeper()
        claim = held.claim
        self._queues[claim.queue].held_count -= 1
        if self._held.get(claim.delivery.id) is held:  # not if it was lost and claimed again meanwhile
            del self._held[claim.delivery.id]
            if not self._held:
                self.busy.clear()


def _suspects(held: Iterable[HeldClaim]) -> int:
    """How many of these claims were started before without an end: they may have crashed a process."""
    return sum(item.claim.starts > SUSPECT_STARTS for item in held)

"""THE lease loop, once: claim what is due, deliver it, settle how it ended.

Each tick settles what finished and claims what there is room for, in one commit. Deliveries run in workers, a
bounded number to a queue; a queue that empties quickly is handed more at a time, so that fast handlers see large
batches and slow ones hold little.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from holdfast.domain.contract import Terms
from holdfast.domain.delivery import (
    STARTS_MAX,
    SUSPECT_STARTS,
    Claim,
    Dead,
    Delivered,
    Effect,
    Outcome,
    Retry,
    Settlement,
    Transition,
    settle,
)
from holdfast.domain.event import NewEvent
from holdfast.domain.retry import DEFAULT_POLICY, POLICIES
from holdfast.domain.states import Reason, State
from holdfast.egress.attempt_log import AttemptLog
from holdfast.egress.gatekeeper import Gatekeeper
from holdfast.egress.line import Attempt, Held, Line
from holdfast.ports import Chance, Clock
from holdfast.store.base import ClaimRequest, Deliveries, Owner, Served

CLAIM_MAX = 768
WINDOW_MAX = 768
LINES_MAX = 1000
POLL_S = 1.0
STALE_MS = 500
RENEW_MIN_S, RENEW_MAX_S = 1.0, 7.5
EXPIRE_MIN_S = 0.05  # deadlines are met this late at most
STUBBORN_MS = 5000  # a coroutine that runs this long after its cancellation ignores it
CANCEL_S = 0.5
LEASE_MS = {kind: round(POLICIES[policy].lease_s * 1000) for kind, policy in DEFAULT_POLICY.items()}


log = logging.getLogger("holdfast.engine")


class Deliverer(Protocol):
    """Brings an event to one kind of address. `serves` lists single addresses; None means every one of its kind."""

    kind: str

    def serves(self) -> frozenset[str] | None: ...
    async def deliver(self, claim: Claim, attempt: Attempt) -> Outcome: ...
    async def close(self) -> None: ...


class Engine:
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
    ) -> None:
        self._blocked_queues = blocked_queues
        self._gatekeeper, self._delivery_dead, self._poll_s = gatekeeper, delivery_dead, poll_s
        self._deliveries, self._owner, self._deliverers = deliveries, owner, deliverers
        self._terms_of, self._clock, self._chance, self._capacity = terms_of, clock, chance, capacity
        self._held: dict[int, Held] = {}
        self._lines: dict[int, Line] = {}
        self._done: list[tuple[Held, Outcome]] = []
        self._returned: list[Held] = []
        self._refused: list[Claim] = []  # claimed, but the gatekeeper does not admit them now
        self._stopping = False
        self._turn = asyncio.Lock()
        self._after_queue = 0
        self._log = AttemptLog()
        self._look_at_ms: int | None = None  # when `expire` looks next, on the boot clock
        self.busy = threading.Event()
        """Set while anything is held, for those who watch the event loop from another thread."""
        self.wake: Callable[[], None] = lambda: None
        self.wake_deadlines: Callable[[], None] = lambda: None
        self.wake_renewal: Callable[[], None] = lambda: None
        self.delivered = 0
        self.failed = 0
        self.leases_lost = 0

    async def tick(self) -> float | None:
        """Settle and claim in one commit; the seconds until something is due."""
        async with self._turn:
            return await self._tick()

    async def _tick(self) -> float | None:
        await self._give_back()
        done, self._done = self._done, []
        ending = [held for held, _ in done]
        settled, claimed = await asyncio.gather(self._settle(done), self._claim(ending), return_exceptions=True)
        if isinstance(settled, BaseException):
            self._done = done + self._done  # nothing is forgotten: it is settled with the next tick
        delay: float | None = self._poll_s
        if not isinstance(claimed, BaseException):
            delay = claimed
        for error in (settled, claimed):
            if isinstance(error, BaseException):
                raise error
        return 0.0 if self._done else delay

    async def _give_back(self) -> None:
        """What was claimed or held for a receiver that is to be left alone goes back unspent.

        A release that fails is repeated with the next tick: nothing else knows of these leases.
        """
        while self._refused:
            refused = list(self._refused)
            await self._deliveries.release(refused)
            del self._refused[: len(refused)]
        while self._returned:
            returned = list(self._returned)
            await self._deliveries.release([held.claim for held in returned])
            del self._returned[: len(returned)]
            for held in returned:
                self._forget(held)

    async def renew(self) -> float | None:
        """Prolong the leases of which a quarter has passed; let go of what is no longer ours."""
        for kind, lease_ms in LEASE_MS.items():
            now_ms = self._clock.boot_ms()
            asked = {id: item for id, item in self._held.items() if item.kind == kind and item.renew_at_ms <= now_ms}
            if asked:
                until_ms = now_ms + lease_ms
                for id in await self._deliveries.renew([item.claim for item in asked.values()], lease_ms):
                    self._lose(asked[id])  # it, and not what may have been claimed in its place meanwhile
                for item in asked.values():
                    item.lease_until_ms = until_ms
        if not self._held:
            return None
        next_ms = min(item.renew_at_ms for item in self._held.values())
        return max(RENEW_MIN_S, min(RENEW_MAX_S, (next_ms - self._clock.boot_ms()) / 1000))

    async def expire(self) -> float | None:
        """Cancel attempts that have taken longer than they may. One look at all costs less than a timer for each."""
        now_ms = self._clock.boot_ms()
        next_ms: int | None = None
        for held in self._held.values():
            if held.worker is None or held.deadline_ms is None:
                continue
            if now_ms >= held.deadline_ms:
                self._end_late(held, now_ms)
            if (due_ms := held.deadline_ms) and (next_ms is None or due_ms < next_ms):
                next_ms = due_ms
        self._look_at_ms = next_ms
        return None if next_ms is None else max(EXPIRE_MIN_S, (next_ms - now_ms) / 1000)

    def _end_late(self, held: Held, now_ms: int) -> None:
        """A coroutine is cancelled. A plain function cannot be: its lane waits for it, and its success counts."""
        if not held.in_thread and not held.cut_off and held.worker is not None:
            held.late = True
            held.deadline_ms = now_ms + STUBBORN_MS
            held.worker.cancel()
            return
        if not held.overdue:
            held.overdue = True
            self._log.overdue(held)
        held.deadline_ms = None

    async def stop(self, grace_s: float) -> list[Claim]:
        """Claim no more, give back what has not begun, and wait for what has, but no longer than `grace_s`.

        What is returned could not be stopped: it runs until the process ends, and keeps its lease until then.
        """
        self._stopping = True
        async with self._turn:  # a claim under way comes to its end first: nobody else knows what it took
            unstarted = [held for line in self._lines.values() for held in line.waiting]
            for line in self._lines.values():
                line.waiting.clear()
            if unstarted:
                await self._deliveries.release([held.claim for held in unstarted])
                for held in unstarted:
                    self._forget(held)
        workers = {worker for line in self._lines.values() for worker in line.workers}
        if workers:
            await asyncio.wait(workers, timeout=grace_s)
        for worker in workers:
            worker.cancel()
        if workers:  # not gather: a coroutine may ignore its cancellation
            await asyncio.wait(workers, timeout=CANCEL_S)
        async with self._turn:
            done, self._done = self._done, []
            await self._settle(done)
            await self._give_back()
        running = [held.claim for held in self._held.values() if held.is_running]
        stopped = [held.claim for held in self._held.values() if not held.is_running]
        # Cut off by a stop, not by a crash: the start does not count against the delivery.
        if stopped:
            await self._deliveries.release(stopped)
        if running:
            await self._deliveries.forgive(running)
        for deliverer in self._deliverers.values():
            await deliverer.close()
        return running

    @property
    def in_flight(self) -> int:
        return len(self._held)

    @property
    def held_ids(self) -> list[int]:
        """The deliveries that this process holds: their leases are its own, however long it stood still."""
        return [id for id, held in self._held.items() if not held.lost]

    def running(self) -> list[Claim]:
        """What is being carried out at this moment."""
        return [held.claim for held in list(self._held.values()) if held.is_running]

    def claim_of(self, task: object) -> Claim | None:
        """What a task is working on, if it is one of the engine's workers."""
        return next((held.claim for held in list(self._held.values()) if held.worker is task), None)

    async def _settle(self, done: list[tuple[Held, Outcome]]) -> None:
        """Write down how deliveries ended. One whose lease was lost is counted and changes nothing."""
        if not done:
            return
        now_ms = self._clock.now_ms()
        ours = [(held, outcome) for held, outcome in done if self._is_ours(held)]
        settlements = [self._settlement(held, outcome, now_ms) for held, outcome in ours]
        lost = await self._deliveries.settle(self._owner, settlements) if settlements else set()
        self.leases_lost += len(done) - len(ours)
        for (held, outcome), settlement in zip(ours, settlements, strict=True):
            if held.claim.delivery.id in lost:
                self.leases_lost += 1
            elif isinstance(outcome, Delivered):
                self.delivered += 1
            else:
                self.failed += 1
                self._log.ended(held, settlement.transition, now_ms)
        for held, _ in done:
            self._forget(held)

    def _is_ours(self, held: Held) -> bool:
        """Whether this process may write its end, as far as it knows: not if the lease was lost or taken again."""
        return not held.lost and self._held.get(held.claim.delivery.id) is held

    def _settlement(self, held: Held, outcome: Outcome, now_ms: int) -> Settlement:
        chance = self._chance.fraction() if isinstance(outcome, Retry) else 0.0
        after = settle(held.claim.delivery.attempts, outcome, held.terms.policy, now_ms, chance)
        effects: Sequence[Effect] = outcome.effects if isinstance(outcome, Delivered) else ()
        if after.state is State.DEAD and self._delivery_dead is not None:
            event = self._delivery_dead(held.claim, after)
            effects = () if event is None else (event,)
        return Settlement(
            held.claim,
            after,
            effects,
            getattr(outcome, "detail", None),
            held.started_at_ms,
            type(outcome).__name__.lower(),
        )

    async def _claim(self, ending: list[Held]) -> float | None:
        """Claim what there is room for, once those that are `ending` are settled: they count as gone already."""
        room = self._capacity - len(self._held) + len(ending)
        if self._stopping or room <= 0:
            return self._poll_s
        request = ClaimRequest(
            owner=self._owner.id,
            served=self._served(),
            limit=min(CLAIM_MAX, room),
            lease_ms=LEASE_MS,
            room=self._room(ending),
            room_default={kind: self._terms_of(None, kind).concurrency for kind in LEASE_MS},
            after_queue=self._after_queue,
            suspects=_suspects(self._held.values()) == _suspects(ending),
        )
        asked_ms = self._clock.boot_ms()  # the lease began no earlier
        claimed = await self._deliveries.claim(request)
        self._after_queue = claimed.after_queue
        now_ms = self._clock.now_ms()
        by_queue: defaultdict[int, list[Claim]] = defaultdict(list)
        for claim in claimed.claims:
            by_queue[claim.queue].append(claim)
        for queue, claims in by_queue.items():
            self._refused += self._accept(queue, claims, now_ms, asked_ms)
            self._feed(queue)
        await self._give_back()
        if claimed.held_back and ending:  # the claim may have come before the settle that makes room
            return 0.0
        if claimed.next_due_ms is None:
            return self._poll_s
        return min(self._poll_s, max(0.0, (claimed.next_due_ms - self._clock.now_ms()) / 1000))

    def _served(self) -> Served:
        whole: set[str] = set()
        single: set[str] = set()
        for kind, deliverer in self._deliverers.items():
            addresses = deliverer.serves()
            if addresses is None:
                whole.add(kind)
            else:
                single.update(addresses)
        shut = frozenset[str]() if self._gatekeeper is None else self._gatekeeper.shut()
        return Served(frozenset(whole), frozenset(single), shut)

    def _room(self, ending: Iterable[Held]) -> dict[int, int]:
        """How much more of each queue we want. The window doubles where workers go hungry, and closes when it lags.

        It counts what is not settled yet too. Who was handed all of it, is quickly through with it and has idle workers
        could have done more. Who is slow, or never had that much to do, has no use for a larger one.
        """
        now_ms = self._clock.now_ms()
        ended: Counter[int] = Counter()
        quick: set[int] = set()
        for item in ending:
            ended[item.claim.queue] += 1
            if now_ms - item.claimed_at_ms <= STALE_MS:
                quick.add(item.claim.queue)
        if len(self._lines) > LINES_MAX:  # direct addresses come and go: what lies idle is asked for anew
            self._lines = {id: line for id, line in self._lines.items() if line.held or line.workers}
        room = {}
        for id, line in self._lines.items():
            if id in quick and line.is_hungry and line.held >= line.window:
                line.window = min(line.window * 2, WINDOW_MAX)
            elif line.waiting and now_ms - line.waiting[0].claimed_at_ms > STALE_MS:
                line.window = max(1, line.window // 2)
            room[id] = max(0, line.window - line.held + ended[id])
        for id in self._blocked_queues():
            room[id] = 0
        return room

    def _accept(self, queue: int, claims: Sequence[Claim], now_ms: int, asked_ms: int) -> list[Claim]:
        """Hold what may be held of one queue, all for one address under one contract. What may not goes back."""
        address, contract_id = claims[0].delivery.address, claims[0].delivery.contract_id
        kind = address.partition(":")[0]
        kind = "https" if kind == "http" else kind
        terms = self._terms_of(contract_id, kind)
        gate = self._gatekeeper if kind == "https" else None
        lease_ms = LEASE_MS[kind]
        until_ms = asked_ms + lease_ms
        line = self._line(queue, terms.concurrency)
        refused: list[Claim] = []
        for claim in claims:
            if gate is not None and not gate.admit(address, terms.interval_us):
                refused.append(claim)
                continue
            if before := self._held.get(claim.delivery.id):
                self._lose(before)  # after standing still for longer than a lease we may claim what we still hold
            held = self._held[claim.delivery.id] = Held(claim, kind, terms, now_ms, lease_ms, until_ms, self, gate=gate)
            line.waiting.append(held)
            line.held += 1
        if self._held and not self.busy.is_set():
            self.busy.set()
            self.wake_renewal()
        return refused

    def _line(self, queue: int, concurrency: int) -> Line:
        line = self._lines.get(queue)
        if line is None:
            line = self._lines[queue] = Line(window=concurrency, concurrency=concurrency)
        line.concurrency = concurrency
        return line

    def _feed(self, queue: int) -> None:
        line = self._lines[queue]
        wanted = min(len(line.waiting), line.concurrency - len(line.workers))
        for _ in range(wanted):
            worker = asyncio.get_running_loop().create_task(self._work(line))
            line.workers.add(worker)
            worker.add_done_callback(line.workers.discard)

    async def _work(self, line: Line) -> None:
        """Carry out what waits in one line, one after another."""
        worker = asyncio.current_task()
        while line.waiting:
            held = line.waiting.popleft()
            if self._is_free(held) or await self._may_begin(held):
                outcome = await self._attempt(held, worker)
                if held.gate is not None:
                    held.leave_gate(None if held.lost else outcome)
                held.ended = True
                self._done.append((held, outcome))
            else:
                self._returned.append(held)
            self.wake()
        if worker is not None:  # at once: `_feed` must not count on a worker that will look no more
            line.workers.discard(worker)

    def _is_free(self, held: Held) -> bool:
        """Whether it may begin without being asked about, as most may: a fresh lease, no rate to keep, an open gate."""
        if self._clock.boot_ms() >= held.lease_until_ms:
            return False
        gate = held.gate
        return gate is None or (not held.terms.interval_us and not gate.is_shut(held.claim.delivery.address))

    async def _may_begin(self, held: Held) -> bool:
        """Wait for its moment, where its address has a rate. What may not begin after all goes back unspent."""
        gate, address = held.gate, held.claim.delivery.address
        try:
            if gate is not None and held.terms.interval_us:
                await gate.turn(address, held.terms.interval_us)
            await self._ask_again(held)
        except Exception as error:  # the store is away for a moment: who claims it next may be luckier
            log.warning("delivery %d goes back before it began: %s", held.claim.delivery.id, describe(error))
            return False
        return gate is None or not gate.is_shut(address)

    async def _attempt(self, held: Held, worker: asyncio.Task[None] | None) -> Outcome:
        held.started_at_ms = self._clock.now_ms()
        claim = held.claim
        if held.lost:
            return Retry("the lease was lost before it began")
        if claim.starts > STARTS_MAX:
            return Dead(
                Reason.CRASH_LOOP, f"started {STARTS_MAX} times and never came to an end: it may kill its process"
            )
        held.worker = worker
        self.start(held)
        try:
            outcome = await self._deliverers[held.kind].deliver(claim, held)
        except asyncio.CancelledError as error:
            if worker is not None and not worker.cancelling():
                held.error = error
                return Retry("CancelledError: the handler was not cancelled by Holdfast, but raised it itself")
            if worker is None or not held.cut_off or worker.uncancel() > 0:
                raise
            return Retry(f"timed out after {held.terms.timeout_s:g} s")
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: a handler must not end the daemon
            outcome = Retry(describe(error))
            held.error = error
        finally:
            held.worker = None
        if held.cut_off and worker is not None:
            worker.uncancel()  # the handler ignored its cancellation and came to an end by itself
        return outcome

    def start(self, held: Held) -> None:
        """Count an attempt's time from now on."""
        held.deadline_ms = self._clock.boot_ms() + round(held.terms.timeout_s * 1000)
        if self._look_at_ms is None or held.deadline_ms < self._look_at_ms:
            self._look_at_ms = held.deadline_ms
            self.wake_deadlines()

    async def _ask_again(self, held: Held) -> None:
        """After standing still, or waiting long for its moment, ask whether it is still ours."""
        now_ms = self._clock.boot_ms()
        if now_ms >= held.lease_until_ms:
            lost = await self._deliveries.renew([held.claim], LEASE_MS[held.kind])
            held.lease_until_ms = now_ms + LEASE_MS[held.kind]
            held.lost = held.lost or bool(lost)

    def _lose(self, held: Held) -> None:
        """The lease belongs to another process now: cancel the attempt if it has begun, and drop its outcome.

        What has ended is left to the settle, which is fenced itself: a renewal that runs beside it finds the lease gone
        because it was settled.
        """
        if held.ended:
            return
        if held.worker is not None and not held.cut_off:
            held.worker.cancel()
        held.lost = True

    def _forget(self, held: Held) -> None:
        if held.gate is not None:
            held.leave_gate()
        claim = held.claim
        self._lines[claim.queue].held -= 1
        if self._held.get(claim.delivery.id) is held:  # not if it was lost and claimed again meanwhile
            del self._held[claim.delivery.id]
            if not self._held:
                self.busy.clear()


class Renewal:
    """Renews the engine's leases."""

    name = "renewal"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def tick(self) -> float | None:
        return await self._engine.renew()


def _suspects(held: Iterable[Held]) -> int:
    """How many of these were started before without coming to an end."""
    return sum(item.claim.starts > SUSPECT_STARTS for item in held)


class Deadlines:
    """Ends attempts that take too long."""

    name = "deadlines"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def tick(self) -> float | None:
        return await self._engine.expire()


def describe(error: BaseException) -> str:
    """An exception in a line of text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

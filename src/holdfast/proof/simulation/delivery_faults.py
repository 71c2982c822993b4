"""Deliberate faults in delivery: engine, deliverers and router. `mutants` names the fault of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from holdfast.domain.contract import Terms
from holdfast.domain.delivery import Claim, Dead, Delivered, Outcome, Retry, Settlement
from holdfast.domain.states import Reason, State
from holdfast.egress.deliverer import Attempt, Deliverer
from holdfast.egress.engine import Engine
from holdfast.egress.held_claim import HeldClaim
from holdfast.egress.local_queue import LocalQueue
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.roles.owners import Owner
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.store import SqliteStore

TermsOf = Callable[[str | None, str], Terms]


class OvertakesHead:
    """After a retry the delivery after the head becomes claimable too."""

    def __init__(self, inner: Any, store: SqliteStore) -> None:
        self._inner, self._store = inner, store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def settle(self, owner: Owner, settlements: Sequence[Settlement]) -> set[int]:
        lost: set[int] = await self._inner.settle(owner, settlements)
        for item in settlements:
            if item.transition.state is State.PENDING and item.transition.due_at_ms is not None:
                params = (item.claim.delivery.id, item.transition.due_at_ms - 1000)
                await self._store._writer.run(partial(_run, _NEXT_TOO, params))
        return lost


def _run(text: str, params: tuple[int, ...], connection: Connection) -> int:
    return connection.run(text, params)


_NEXT_TOO = """
INSERT INTO holdfast_ready (delivery, queue, due_at)
SELECT d.id, d.queue, ?2 FROM holdfast_deliveries h JOIN holdfast_deliveries d ON d.lane = h.lane AND d.pos > h.pos
WHERE h.id = ?1 AND d.state = 'pending' AND h.lane IS NOT NULL ORDER BY d.pos LIMIT 1 ON CONFLICT DO NOTHING"""


class MistakesForSuccess:
    """StreamLocks some outcomes into `Delivered`."""

    def __init__(self, inner: Deliverer, mistakes: Callable[[Outcome], bool]) -> None:
        self.kind, self._inner, self._mistakes = inner.kind, inner, mistakes

    def serves(self) -> frozenset[str] | None:
        return self._inner.serves()

    async def deliver(self, claim: Claim, attempt: Attempt) -> Outcome:
        outcome = await self._inner.deliver(claim, attempt)
        return Delivered() if self._mistakes(outcome) else outcome

    async def close(self) -> None:
        await self._inner.close()


_PASS = "UPDATE holdfast_router SET place = max(place, ?)"


class SkipsUnrouted:
    """A router that skips an event when the contracts have changed."""

    name = "router"

    def __init__(self, inner: Router, registry: Registry, store: SqliteStore) -> None:
        self._inner, self._registry, self._store = inner, registry, store

    async def tick(self) -> float | None:
        async with self._store.routing.batch(1) as batch:
            if batch.events and batch.version != self._registry.version:
                await self._store._writer.run(partial(_run, _PASS, (batch.events[0].n,)))
        return await self._inner.tick()


class WithoutTimer:
    """An engine that sleeps without a timer."""

    name = "engine"

    def __init__(self, inner: Engine) -> None:
        self._inner = inner

    async def tick(self) -> float | None:
        return 0.0 if await self._inner.tick() == 0.0 else None


def leaks_count(engine: Engine) -> Engine:
    """A delivery that was lost and claimed again is counted twice, but released once."""

    def forget(held: HeldClaim) -> None:
        if engine._held.pop(held.claim.delivery.id, None) is not None:
            engine._queues[held.claim.queue].held_count -= 1

    engine._forget = forget  # type: ignore[method-assign]
    return engine


def counts_finished_workers(engine: Engine) -> Engine:
    """A worker counts as running until the loop processes its end."""

    workers = engine._workers

    async def work(queue: LocalQueue) -> None:
        while queue.waiting:
            held = queue.waiting.popleft()
            outcome = await workers.attempt(held, asyncio.current_task())
            workers.finished.append((held, outcome))
            workers.wake()

    workers._work = work  # type: ignore[method-assign]
    return engine


def without_attempt_limit(terms_of: TermsOf) -> TermsOf:
    def terms(contract: str | None, kind: str) -> Terms:
        found = terms_of(contract, kind)
        return found._replace(policy=replace(found.policy, attempts=None))

    return terms


def one_at_a_time(terms_of: TermsOf) -> TermsOf:
    """Not a fault: one worker per queue, so that the failure of one has an effect."""
    return lambda contract, kind: terms_of(contract, kind)._replace(concurrency=1)


class RejectsThrottled:
    """Treats a request to retry later as a rejection."""

    def __init__(self, inner: Deliverer) -> None:
        self.kind, self._inner = inner.kind, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def deliver(self, claim: Claim, attempt: Attempt) -> Outcome:
        outcome = await self._inner.deliver(claim, attempt)
        asked = isinstance(outcome, Retry) and outcome.after_s is not None
        return Dead(Reason.REJECTED, "answered 429") if asked else outcome


class FireAndForget:
    """Counts a started handler as delivered."""

    def __init__(self, inner: Deliverer) -> None:
        self.kind, self._inner = inner.kind, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def deliver(self, claim: Claim, attempt: Attempt) -> Outcome:
        if self.kind != "handler":
            return await self._inner.deliver(claim, attempt)
        asyncio.get_running_loop().create_task(self._inner.deliver(claim, attempt))
        return Delivered()


class KeepsLeases:
    """Does not release its leases when it stops."""

    def __init__(self, inner: Any, store: SqliteStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def release(self, claims: Sequence[Claim]) -> None:
        pass

"""Mutants: known bugs that can be put between the parts of a simulation, to show that the checks see them.

A mutant replaces statements of the SQLite store or stands in for a part. The product itself is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import holdfast.store.sqlite.deliveries as deliveries_module
from holdfast.daemon.loop import Duty
from holdfast.domain.contract import Terms
from holdfast.domain.delivery import Claim, Dead, Delivered, Outcome, Retry, Settlement
from holdfast.domain.event import Appended, NewEvent
from holdfast.domain.states import Reason, State
from holdfast.egress.engine import Deliverer, Engine, Held, Line
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.base import Deliveries, Events, Owner
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.receipts import Leaf, write_link
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.store import SqliteStore

TermsOf = Callable[[str | None, str], Terms]


@dataclass(frozen=True)
class Mutant:
    """What is wrong, and where. The plain `Mutant("none")` is the product as it is."""

    name: str
    statements: Mapping[str, str] = field(default_factory=dict)
    links: Callable[..., None] = write_link
    deliveries: Callable[[Any, SqliteStore], Deliveries] = lambda role, store: role
    deliverer: Callable[[Deliverer], Deliverer] = lambda deliverer: deliverer
    terms: Callable[[TermsOf], TermsOf] = lambda terms_of: terms_of
    engine: Callable[[Engine], Duty] = lambda engine: engine
    router: Callable[[Router, Registry, SqliteStore], Duty] = lambda router, registry, store: router
    events: Callable[[SqliteStore], Events] = lambda store: store.events
    intake: Callable[[SqliteStore], Events] = lambda store: store.events
    sweeps: bool = True
    renews: bool = True
    poll_s: float = 1.0

    @contextmanager
    def at_large(self) -> Iterator[None]:
        """The statements and functions of the store are this mutant's for a while."""
        healthy = {name: getattr(sql, name) for name in self.statements}
        try:
            sql._texts.update(self.statements)
            setattr(deliveries_module, "write_link", self.links)  # noqa: B010 - it is not part of its public names
            yield
        finally:
            sql._texts.update(healthy)
            setattr(deliveries_module, "write_link", write_link)  # noqa: B010


class _Overtaking:
    """After a retry the one behind the head becomes claimable too."""

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


class _Mistaken:
    """Takes some outcomes for success."""

    def __init__(self, inner: Deliverer, mistakes: Callable[[Outcome], bool]) -> None:
        self.kind, self._inner, self._mistakes = inner.kind, inner, mistakes

    def serves(self) -> frozenset[str] | None:
        return self._inner.serves()

    async def deliver(self, claim: Claim) -> Outcome:
        outcome = await self._inner.deliver(claim)
        return Delivered() if self._mistakes(outcome) else outcome

    async def close(self) -> None:
        await self._inner.close()


class _Forgetful:
    """A router that takes a change of contracts for a reason to begin with the next event."""

    name = "router"

    def __init__(self, inner: Router, registry: Registry, store: SqliteStore) -> None:
        self._inner, self._registry, self._store = inner, registry, store

    async def tick(self) -> float | None:
        async with self._store.routing.batch(1) as batch:
            if batch.events and batch.version != self._registry.version:
                params = (batch.events[0].n,)
                await self._store._writer.run(lambda connection: connection.run(sql.unrouted_done, params))
        return await self._inner.tick()


class _Timerless:
    """An engine that goes to sleep without a timer."""

    name = "engine"

    def __init__(self, inner: Engine) -> None:
        self._inner = inner

    async def tick(self) -> float | None:
        return 0.0 if await self._inner.tick() == 0.0 else None


class _Reimporting:
    """Events for the spool: what is there already is stored again under another id."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store.events, name)

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        fresh = []
        for event in events:
            known = event.id is not None and await self._store.events.get(event.id) is not None
            fresh.append(_renamed(event) if known else event)
        return await self._store.events.append(fresh)


def _leaking(engine: Engine) -> Engine:
    """What was lost and claimed anew is forgotten once, though it was counted twice."""

    def forget(held: Held) -> None:
        if engine._held.pop(held.claim.delivery.id, None) is not None:
            engine._lines[held.claim.queue].held -= 1

    engine._forget = forget  # type: ignore[method-assign]
    return engine


def _counting_the_finished(engine: Engine) -> Engine:
    """A worker is counted on until the loop gets round to saying that it has finished."""

    async def work(line: Line) -> None:
        while line.waiting:
            held = line.waiting.popleft()
            outcome = await engine._attempt(held)
            engine._done.append((held, outcome))
            engine.wake()

    engine._work = work  # type: ignore[method-assign]
    return engine


def _renamed(event: NewEvent) -> NewEvent:
    return replace(event, id=None, dedup_key=None)


def _endless(terms_of: TermsOf) -> TermsOf:
    def terms(contract: str | None, kind: str) -> Terms:
        found = terms_of(contract, kind)
        return found._replace(policy=replace(found.policy, attempts=None))

    return terms


def _link_no_dead(connection: Any, chain: str, at_ms: int, actor: str, transitions: Sequence[Leaf]) -> None:
    write_link(connection, chain, at_ms, actor, [leaf for leaf in transitions if leaf[3] != State.DEAD])


def _without(name: str, *parts: tuple[str, str]) -> dict[str, str]:
    """A statement with parts of it exchanged; each must be there."""
    text = getattr(sql, name)
    for old, new in parts:
        if old not in text:
            raise ValueError(f"the statement {name} has no part {old!r} that could be made faulty")
        text = text.replace(old, new)
    return {name: text}


_UNFENCED = ("AND token = ?", "AND ? IS NOT NULL")
_UNCOUNTED = ("starts = starts + 1", "starts = starts")
_OLDEST = (
    "pos = (SELECT min(pos) FROM holdfast_deliveries WHERE lane = ?1 AND state = 'pending')",
    "id = (SELECT id FROM holdfast_deliveries WHERE lane = ?1 AND state = 'pending' ORDER BY created_at, id LIMIT 1)",
)

NONE = Mutant("none")
MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for mutant in (
        Mutant("reclaim-omits-leased", _without("lease_reclaim", ("token IS NOT NULL", "token IS NULL"))),
        Mutant("no-timer", engine=_Timerless, sweeps=False, poll_s=1e9),
        Mutant("skip-head-in-backoff", deliveries=_Overtaking),
        Mutant("poison-never-ends", terms=_endless),
        Mutant("lease-never-expires", _without("lease_reclaim", ("lease_until < ?1", "lease_until < ?1 - 1000000000"))),
        Mutant("failure-counts-as-delivered", deliverer=lambda d: _Mistaken(d, lambda o: isinstance(o, Retry))),
        Mutant("settle-ignores-token", {**_without("ready_end", _UNFENCED), **_without("ready_again", _UNFENCED)}),
        Mutant("lane-by-wall-clock", _without("lane_next", _OLDEST)),
        Mutant("rejected-counts-as-delivered", deliverer=lambda d: _Mistaken(d, lambda o: isinstance(o, Dead)
                                                                             and o.reason is Reason.REJECTED)),
        Mutant("no-receipt-for-dead", links=_link_no_dead),
        Mutant("spool-imported-twice", events=_Reimporting),
        Mutant("router-forgets-unrouted", router=_Forgetful),
        Mutant("starts-not-counted", {**_without("ready_lease", _UNCOUNTED), **_without("suspect_lease", _UNCOUNTED)}),
        Mutant("claims-what-is-leased", _without("ready_lease", ("token IS NULL AND", ""))),
        Mutant("engine-count-leaks", engine=_leaking),
        Mutant("finished-worker-counts", engine=_counting_the_finished),
        Mutant("lane-has-many-heads", _without("lane_join", ("tail, open, paused", "tail, 1, paused"))),
    )
}  # fmt: skip

"""Mutants: known bugs that can be put between the parts of a simulation, to show that the checks see them.

A mutant replaces statements of the SQLite store or stands in for a part. The product itself is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import holdfast.store.sqlite.deliveries as deliveries_module
import holdfast.store.sqlite.migrate as migrate_module
import holdfast.store.sqlite.settling as settling_module
from holdfast.daemon.loop import Duty
from holdfast.domain.delivery import Dead, Retry
from holdfast.domain.states import Reason
from holdfast.egress.engine import Deliverer, Engine
from holdfast.ports import Clock
from holdfast.proof.simulation import wrong_books, wrong_work
from holdfast.proof.simulation.wrong_books import without
from holdfast.proof.simulation.wrong_work import TermsOf
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.base import Deliveries, Events
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.store import SqliteStore


@dataclass(frozen=True)
class Mutant:
    """What is wrong, and where. The plain `Mutant("none", "")` is the product as it is."""

    name: str
    fault: str
    statements: Mapping[str, str] = field(default_factory=dict)
    patches: tuple[tuple[ModuleType, str, Any], ...] = ()
    deliveries: Callable[[Any, SqliteStore], Deliveries] = lambda role, store: role
    deliverer: Callable[[Deliverer], Deliverer] = lambda deliverer: deliverer
    terms: Callable[[TermsOf], TermsOf] = lambda terms_of: terms_of
    engine: Callable[[Engine], Duty] = lambda engine: engine
    router: Callable[[Router, Registry, SqliteStore], Duty] = lambda router, registry, store: router
    events: Callable[[SqliteStore, Path], Events] = lambda store, spool: store.events
    intake: Callable[[SqliteStore], Events] = lambda store: store.events
    clock: Callable[[Clock], Clock] = lambda clock: clock
    sweeps: bool = True
    renews: bool = True
    poll_s: float = 1.0

    @contextmanager
    def at_large(self) -> Iterator[None]:
        """The statements and functions of the store are this mutant's for a while."""
        healthy = {name: getattr(sql, name) for name in self.statements}
        whole = [(module, name, getattr(module, name)) for module, name, _ in self.patches]
        try:
            sql._texts.update(self.statements)
            for module, name, part in self.patches:
                setattr(module, name, part)
            yield
        finally:
            sql._texts.update(healthy)
            for module, name, part in whole:
                setattr(module, name, part)


def recorded_seeds() -> dict[str, list[int]]:
    """Seeds worth keeping: by the mutant they kill, or under `fixed` those that once found a bug."""
    found: dict[str, list[int]] = {}
    for line in files("holdfast.proof.simulation").joinpath("seeds.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            name, *seeds = line.split()
            found.setdefault(name, []).extend(map(int, seeds))
    return found


def _links(link: Callable[..., None]) -> tuple[tuple[ModuleType, str, Any], ...]:
    return ((deliveries_module, "write_link", link), (settling_module, "write_link", link))


def _refused(outcome: object) -> bool:
    return isinstance(outcome, Dead) and outcome.reason is Reason.REJECTED


NONE = Mutant("none", "")
MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for mutant in (
        Mutant("reclaim-omits-leased", "S1: what a dead process had in hand is never looked at again",
               without("lease_reclaim", ("token IS NOT NULL", "token IS NULL"))),
        Mutant("no-timer", "S2: nothing wakes the engine when a retry is due",
               engine=wrong_work.Timerless, sweeps=False, poll_s=1e9),
        Mutant("skip-head-in-backoff", "S3: whoever is behind a head in back-off overtakes it",
               deliveries=wrong_work.Overtaking),
        Mutant("poison-never-ends", "S4: a head that always fails holds up its lane for ever",
               terms=wrong_work.endless),
        Mutant("lease-never-expires", "S5: a claim has no end but its own",
               without("lease_reclaim", ("lease_until < ?1", "lease_until < ?1 - 1000000000"))),
        Mutant("failure-counts-as-delivered", "S6: any answer is taken for success",
               deliverer=lambda d: wrong_work.Mistaken(d, lambda o: isinstance(o, Retry))),
        Mutant("every-4xx-is-final", "S7: who asks for patience with 429 is taken to refuse",
               deliverer=wrong_work.Stingy),
        Mutant("settle-ignores-token", "S8: whoever lost its lease still settles",
               {**without("ready_end", wrong_books.UNFENCED_END), **without("ready_again", wrong_books.UNFENCED)}),
        Mutant("lane-by-wall-clock", "S9: order by the time of creation", without("lane_next", wrong_books.OLDEST)),
        Mutant("rejected-counts-as-delivered", "S10: what can never succeed is marked delivered",
               deliverer=lambda d: wrong_work.Mistaken(d, _refused)),
        Mutant("acknowledged-before-stored", "S11: the answer comes before the commit", intake=wrong_books.Hasty),
        Mutant("handlers-fire-and-forget", "S12: a handler that was started counts as done",
               deliverer=wrong_work.FireAndForget),
        Mutant("burst-is-coalesced", "S13: of a burst only the last is kept, and nobody is told",
               intake=wrong_books.Coalescing),
        Mutant("no-heartbeat", "S14: a slow receiver outlasts the lease, and is sent the same again", renews=False),
        Mutant("only-the-first-queue", "S15: a bounded scan that begins with the same queues each time",
               {"ready_queues": wrong_books.FIRST_QUEUE}),
        Mutant("claims-what-is-leased", "S16: a second pass takes what the first has in hand",
               without("ready_lease", ("token IS NULL AND", ""))),
        Mutant("receipt-tail-rewritten", "S19: a chain whose end was replaced still verifies",
               patches=_links(wrong_books.link_over_tail)),
        Mutant("no-receipt-for-dead", "an end without a receipt", patches=_links(wrong_books.link_no_dead)),
        Mutant("spool-imported-twice", "a record is stored again after a crash before its removal",
               events=wrong_books.Reimporting),
        Mutant("spool-removed-first", "a record is removed before it is stored", events=wrong_books.Clearing),
        Mutant("key-forgotten", "a publisher that asks again is given a second event", intake=wrong_books.Amnesiac),
        Mutant("router-forgets-unrouted", "a change of contracts makes the router skip an event",
               router=wrong_work.Forgetful),
        Mutant("starts-not-counted", "a payload that kills its process is taken up for ever",
               {**without("ready_lease", wrong_books.UNCOUNTED), **without("suspect_lease", wrong_books.UNCOUNTED)}),
        Mutant("lane-has-many-heads", "everyone in a lane is ready at once",
               without("lane_join", ("tail, open, paused", "tail, 1, paused"))),
        Mutant("lease-by-wall-clock", "setting the clock ends leases", clock=wrong_books.WallClock),
        Mutant("migration-in-pieces", "a crash leaves half a schema, which cannot be opened again",
               patches=((migrate_module, "_apply", wrong_books.apply_in_pieces),)),
        Mutant("stop-keeps-leases", "an orderly stop leaves what it had claimed to the end of the lease",
               deliveries=wrong_work.Keeping),
        Mutant("engine-count-leaks", "found here: what was lost and claimed anew is counted twice, forgotten once",
               engine=wrong_work.leaking),
        Mutant("finished-worker-counts", "found here: work is left to a worker that has just finished",
               engine=wrong_work.counting_the_finished, terms=wrong_work.one_at_a_time),
        Mutant("probe-outlives-owner", "S5: what a dead process was trying is left alone until its time is over",
               without("gate_probe", ("boot_id = ?5", "boot_id = ?5 OR 1"))),
    )
}  # fmt: skip

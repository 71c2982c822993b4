"""Mutants: known bugs that can be injected into a simulation, to show that the checks detect them.

A mutant replaces SQL statements of the SQLite store or wraps a part. The product code itself is not changed.
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
from holdfast.egress.deliverer import Deliverer
from holdfast.egress.engine import Engine
from holdfast.ports import Clock
from holdfast.proof.simulation import delivery_faults as work
from holdfast.proof.simulation import storage_faults as storage
from holdfast.proof.simulation.delivery_faults import TermsOf
from holdfast.proof.simulation.storage_faults import without
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.roles.deliveries import Deliveries
from holdfast.store.roles.events import Events
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.store import SqliteStore


@dataclass(frozen=True)
class Mutant:
    """A known bug and how to inject it. `Mutant("none", "")` is the product unchanged."""

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
    def installed(self) -> Iterator[None]:
        """Replace the statements and functions of the store inside the context."""
        healthy = {name: getattr(sql, name) for name in self.statements}
        originals = [(module, name, getattr(module, name)) for module, name, _ in self.patches]
        try:
            sql._texts.update(self.statements)
            for module, name, part in self.patches:
                setattr(module, name, part)
            yield
        finally:
            sql._texts.update(healthy)
            for module, name, part in originals:
                setattr(module, name, part)


def recorded_seeds() -> dict[str, list[int]]:
    """Recorded seeds: by the mutant they detect, or under `fixed` those that once found a bug."""
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
        Mutant("reclaim-omits-leased", "S1: deliveries leased by a dead process are never reclaimed",
               without("lease_reclaim", ("token IS NOT NULL", "token IS NULL"))),
        Mutant("no-timer", "S2: nothing wakes the engine when a retry is due",
               engine=work.WithoutTimer, sweeps=False, poll_s=1e9),
        Mutant("skip-head-in-backoff", "S3: the delivery after a head in back-off overtakes it",
               deliveries=work.OvertakesHead),
        Mutant("poison-never-ends", "S4: a head that always fails blocks its lane for ever",
               terms=work.without_attempt_limit),
        Mutant("lease-never-expires", "S5: a lease ends only when its holder ends it",
               without("lease_reclaim", ("lease_until < ?1", "lease_until < ?1 - 1000000000"))),
        Mutant("failure-counts-as-delivered", "S6: any response counts as success",
               deliverer=lambda d: work.MistakesForSuccess(d, lambda o: isinstance(o, Retry))),
        Mutant("every-4xx-is-final", "S7: 429 counts as a rejection",
               deliverer=work.RejectsThrottled),
        Mutant("settle-ignores-token", "S8: a worker that lost its lease can still settle",
               {**without("ready_end", storage.UNFENCED_END), **without("ready_again", storage.UNFENCED)}),
        Mutant("lane-by-wall-clock", "S9: lanes are ordered by creation time", without("lane_next", storage.OLDEST)),
        Mutant("rejected-counts-as-delivered", "S10: a rejected delivery is marked delivered",
               deliverer=lambda d: work.MistakesForSuccess(d, _refused)),
        Mutant("acknowledged-before-stored", "S11: append returns before the commit",
               intake=storage.AnswersBeforeCommit),
        Mutant("handlers-fire-and-forget", "S12: a started handler counts as delivered",
               deliverer=work.FireAndForget),
        Mutant("burst-is-coalesced", "S13: only the last event of a burst is stored, without any trace of the others",
               intake=storage.KeepsOnlyTheLast),
        Mutant("no-heartbeat", "S14: leases are not renewed, so a slow receiver gets the event twice", renews=False),
        Mutant("only-the-first-queue", "S15: a bounded scan starts with the same queues each time",
               {"ready_queues": storage.FIRST_QUEUE}),
        Mutant("claims-what-is-leased", "S16: a claim takes deliveries that are already leased",
               without("ready_lease", ("token IS NULL AND", ""))),
        Mutant("receipt-tail-rewritten", "S19: a chain whose last links were replaced still verifies",
               patches=_links(storage.link_over_tail)),
        Mutant("no-receipt-for-dead", "a dead delivery has no receipt", patches=_links(storage.link_no_dead)),
        Mutant("spool-imported-twice", "a crash between import and removal stores a record twice",
               events=storage.ImportsTwice),
        Mutant("spool-removed-first", "a record is removed before it is stored", events=storage.RemovesSpoolFirst),
        Mutant("key-forgotten", "a publisher's retry creates a second event", intake=storage.ForgetsKeys),
        Mutant("router-forgets-unrouted", "a change of contracts makes the router skip an event",
               router=work.SkipsUnrouted),
        Mutant("starts-not-counted", "a payload that kills its process is retried for ever",
               {**without("ready_lease", storage.UNCOUNTED), **without("suspect_lease", storage.UNCOUNTED)}),
        Mutant("lane-has-many-heads", "every delivery of a lane is ready at once",
               without("lane_join", ("tail, open, paused", "tail, 1, paused"))),
        Mutant("lease-by-wall-clock", "setting the wall clock ends leases", clock=storage.WallClock),
        Mutant("migration-in-pieces", "a crash leaves half a schema that cannot be opened again",
               patches=((migrate_module, "_apply", storage.apply_in_pieces),)),
        Mutant("stop-keeps-leases", "an orderly stop keeps its leases until they expire",
               deliveries=work.KeepsLeases),
        Mutant("engine-count-leaks", "found here: a delivery lost and claimed again is counted twice, released once",
               engine=work.leaks_count),
        Mutant("finished-worker-counts", "found here: work is left to a worker that has just finished",
               engine=work.counts_finished_workers, terms=work.one_at_a_time),
        Mutant("probe-outlives-owner", "S5: a breaker probe of a dead process blocks others until it times out",
               without("gate_probe", ("boot_id = ?5", "boot_id = ?5 OR 1"))),
    )
}  # fmt: skip

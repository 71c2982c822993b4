"""What every operator verb works with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.domain.event import Event
from holdfast.domain.fleet import FleetComponent
from holdfast.domain.retry import Policy
from holdfast.ledger.signed_heads import SignedHeads
from holdfast.net.guard import Guard
from holdfast.operations.process_counts import ProcessCounts
from holdfast.ports import NO_TRACING, Chance, Clock, Tracing
from holdfast.store.roles.maintenance import Retention
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.store import Store
from holdfast.streams.live import LiveViews
from holdfast.streams.statistics import SinkStatistics

LOCAL = "local"
"""The actor of a verb that is called in this process without a name."""


@dataclass(frozen=True, slots=True)
class OperationsContext:
    """A store, the rules in force, and callables that report what the running process knows.

    `health`: the state of each background duty. `spooled`: files in the spool. `served`: handler addresses of this
    process. `warnings`: lines for `status`. `hooks`: counts of agent hooks that were not appended. `faults`: why
    contracts are misconfigured, by contract id. `live`: the live views. `counts`: what this process did. `fleet`: the
    components to watch. `sinks`: what each sink has done, by reader. `replay_to`: sends events to a sink again, by its
    name. A process without a daemon keeps the defaults. `detached`: nothing is known about the process that delivers.
    """

    store: Store
    owner: Owner
    guard: Guard
    policies: Mapping[str, Policy]
    retention: Retention
    clock: Clock
    chance: Chance
    health: Callable[[], dict[str, str]] = dict
    spooled: Callable[[], int] = int
    served: Callable[[], frozenset[str]] = frozenset
    warnings: Callable[[], list[str]] = list
    hooks: Callable[[], dict[str, int]] = dict
    faults: Callable[[], Mapping[str, str]] = dict
    live: LiveViews | None = None
    counts: ProcessCounts = field(default_factory=ProcessCounts)
    fleet: tuple[FleetComponent, ...] = ()
    tracing: Tracing = NO_TRACING
    sinks: Callable[[], Mapping[str, SinkStatistics]] = dict
    archive_folder: Path | None = None
    detached: bool = False
    signed_heads: SignedHeads | None = None
    replay_to: Mapping[str, Callable[[str, Sequence[Event]], Awaitable[None]]] = field(default_factory=dict)

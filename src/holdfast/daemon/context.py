"""What the parts of one runtime share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from holdfast.config.config import Config
from holdfast.home import Home
from holdfast.net.guard import Guard
from holdfast.net.refusal import RESTART, Remedy
from holdfast.operations.process_counts import ProcessCounts
from holdfast.operations.system_events import SystemEvents
from holdfast.operations.tracing import find_tracing
from holdfast.ports import Chance, Clock, Tracing
from holdfast.routing.registry import Registry
from holdfast.store.roles.store import Feature, Store

POLL_S, NOTIFIED_POLL_S = 1.0, 5.0
"""How often duties look for work without being woken. On SQLite every commit wakes them, so less often."""


@dataclass(frozen=True, slots=True)
class RuntimeContext:
    """`home` is None inside an application. The guard decides which hosts may be reached."""

    store: Store
    config: Config
    home: Home | None
    clock: Clock
    chance: Chance
    guard: Guard
    registry: Registry
    system_events: SystemEvents
    counts: ProcessCounts = field(default_factory=ProcessCounts)
    tracing: Tracing = field(default_factory=find_tracing)

    @property
    def one_keeper(self) -> bool:
        """Only one process at a time works on this store."""
        return Feature.ONE_KEEPER in self.store.features

    @property
    def poll_s(self) -> float:
        return NOTIFIED_POLL_S if self.one_keeper else POLL_S


def build_context(
    store: Store,
    config: Config,
    home: Home | None,
    clock: Clock,
    chance: Chance,
    loopback_ports: Collection[int] = (),
) -> RuntimeContext:
    registry = Registry(store.contracts, config.policies, config.interval_us, store.readers)
    system_events = SystemEvents(store, registry, clock, config.disable_after_ms)
    remedy = RESTART if home is None else Remedy(str(home.config), "no restart is needed")
    guard = Guard(config.egress_allow, loopback_ports=loopback_ports, remedy=remedy)
    return RuntimeContext(store, config, home, clock, chance, guard, registry, system_events)

"""The background duties of every runtime, apart from the engine and those for agents."""

from __future__ import annotations

from holdfast.config.config import Config
from holdfast.daemon.loop import Loop
from holdfast.file_watch import FileWatch
from holdfast.operations.duties.change_watch import ChangeWatch
from holdfast.operations.duties.checkpointer import Checkpointer
from holdfast.operations.duties.contract_sweep import ContractSweep
from holdfast.operations.duties.integrity_check import IntegrityCheck
from holdfast.operations.duties.pruner import Pruner
from holdfast.operations.duties.sweeper import Sweeper
from holdfast.routing.registry import Refreshing, Registry
from holdfast.routing.router import Router
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.store import Store

SLOW_POLL_S = 60.0
INTEGRITY_POLL_S = 3600.0


def add_duties(
    loop: Loop,
    files: FileWatch,
    store: Store,
    config: Config,
    owner: Owner,
    registry: Registry,
    sweeper: Sweeper,
    contract_sweep: ContractSweep,
    *,
    poll_s: float,
) -> None:
    """`poll_s`: how often duties that follow the store check it without being woken."""
    loop.add(Router(store.routing, registry, owner), poll_s)
    loop.add(Refreshing(registry), poll_s)
    loop.add(sweeper, SLOW_POLL_S)
    loop.add(contract_sweep, SLOW_POLL_S)
    loop.add(Pruner(store.maintenance, config.retention, config.prune_every_s), config.prune_every_s)
    loop.add(Checkpointer(store.maintenance), SLOW_POLL_S)
    # Commits of other processes: these duties may have work now.
    watch = ChangeWatch(store.maintenance, lambda: loop.wake("router", "engine", "registry", "contracts", "sweeper"))
    watch.watch(files)
    watch.wake = loop.add(watch, SLOW_POLL_S)
    if owner.unclean:
        loop.add(IntegrityCheck(store.maintenance), INTEGRITY_POLL_S)

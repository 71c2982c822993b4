"""The background duties of every runtime, apart from the engine and those for agents."""

from __future__ import annotations

from holdfast.daemon.context import RuntimeContext
from holdfast.daemon.deliverers import Deliverers
from holdfast.daemon.loop import Loop
from holdfast.egress.engine import Engine
from holdfast.file_watch import FileWatch
from holdfast.ledger.signed_heads import SignedHeads
from holdfast.operations.duties.change_watch import ChangeWatch
from holdfast.operations.duties.checkpointer import Checkpointer
from holdfast.operations.duties.contract_sweep import ContractSweep
from holdfast.operations.duties.count_recorder import EVERY_S, CountRecorder
from holdfast.operations.duties.cursor_expiry import CursorExpiry
from holdfast.operations.duties.head_signer import HeadSigner
from holdfast.operations.duties.integrity_check import IntegrityCheck
from holdfast.operations.duties.pruner import Pruner
from holdfast.operations.duties.queue_repair import QueueRepair
from holdfast.operations.duties.sweeper import Sweeper
from holdfast.routing.registry import Refreshing
from holdfast.routing.router import Router
from holdfast.store.roles.owners import Owner
from holdfast.streams.archive.archiver import Archiver

SLOW_POLL_S = 60.0
INTEGRITY_POLL_S = 3600.0
WOKEN_BY_COMMITS = ("router", "engine", "registry", "contracts", "sweeper", "live")
"""Duties that may have work after a commit of another process."""


def add_duties(
    loop: Loop,
    files: FileWatch,
    context: RuntimeContext,
    owner: Owner,
    engine: Engine,
    deliverers: Deliverers,
    contract_sweep: ContractSweep,
) -> None:
    store, config, registry = context.store, context.config, context.registry
    loop.add(Router(store.routing, registry, owner, engine, context.counts, context.tracing), context.poll_s)
    loop.add(Refreshing(registry), context.poll_s)
    sweeper = Sweeper(
        store.deliveries, owner, deliverers.served, context.clock, lambda: engine.held_ids, context.counts
    )
    loop.add(sweeper, SLOW_POLL_S)
    loop.add(contract_sweep, SLOW_POLL_S)
    loop.add(QueueRepair(store.queue_admin), SLOW_POLL_S)
    loop.add(Pruner(store.maintenance, config.retention, config.prune_every_s, owner), config.prune_every_s)
    idle_ms, every_s = config.retention.cursors_ms, config.prune_every_s
    if idle_ms:
        expiry = CursorExpiry(store, context.clock, idle_ms, every_s, context.system_events.cursors_expired)
        loop.add(expiry, every_s)
    if config.archive_folder is not None:
        kept_ms = config.retention.delivered_ms
        archiver = Archiver(store, config.archive_folder, kept_ms, every_s, context.clock, context.chance)
        loop.add(archiver, every_s)
    if context.home is not None and config.sign_every_s > 0:
        signed = SignedHeads(context.home.receipts)
        often = (config.sign_every, config.sign_every_s)
        loop.add(HeadSigner(store, signed, context.clock, context.chance, registry.wants, *often), SLOW_POLL_S)
    loop.add(Checkpointer(store.maintenance), SLOW_POLL_S)
    loop.add(CountRecorder(store, context.counts, context.clock), EVERY_S)
    watch = ChangeWatch(store.maintenance, lambda: loop.wake(*WOKEN_BY_COMMITS))
    watch.watch(files)
    watch.wake = loop.add(watch, SLOW_POLL_S)
    if owner.unclean:
        loop.add(IntegrityCheck(store.maintenance), INTEGRITY_POLL_S)

"""Builds the engine, with the gatekeeper that decides which addresses it may try."""

from __future__ import annotations

from holdfast.daemon.context import RuntimeContext
from holdfast.daemon.deliverers import Deliverers
from holdfast.daemon.loop import Loop
from holdfast.egress.engine import Engine
from holdfast.egress.gatekeeper import Gatekeeper
from holdfast.store.roles.owners import Owner

LEASE_POLL_S = 5.0


def add_engine(loop: Loop, context: RuntimeContext, owner: Owner, deliverers: Deliverers) -> Engine:
    store, config = context.store, context.config
    gatekeeper = Gatekeeper(
        store.gates,
        owner,
        context.clock,
        config.capacity,
        context.system_events.breaker_changed,
        deliverers.webhooks.start,
    )
    engine = Engine(
        store.deliveries,
        owner,
        deliverers.load(context),
        context.registry.terms_of,
        context.clock,
        context.chance,
        capacity=config.capacity,
        poll_s=context.poll_s,
        gatekeeper=gatekeeper,
        delivery_dead=context.system_events.delivery_dead,
        blocked_queues=context.registry.blocked_queues,
        counters=context.counts,
        tracing=context.tracing,
    )
    gatekeeper.wake = loop.add(gatekeeper, context.poll_s)
    gatekeeper.freed = lambda: loop.wake("engine")
    engine.wake = loop.add(engine, context.poll_s)
    engine.deadlines.wake = loop.add(engine.deadlines, LEASE_POLL_S)
    engine.renewal.wake = loop.add(engine.renewal, LEASE_POLL_S)
    return engine

"""Builds the publisher of streams from the configured sinks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.daemon.context import RuntimeContext
from holdfast.daemon.loop import Loop
from holdfast.domain.address import parse_address
from holdfast.domain.errors import Reject, RetryAfter, StoreBusy
from holdfast.domain.event import Event
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.routing import Plan, RouteTarget
from holdfast.store.roles.store import Store
from holdfast.streams.publisher import Publisher
from holdfast.streams.sink_worker import Limits, SinkWorker, Stores
from holdfast.streams.sinks.registry import make_sink
from holdfast.streams.sinks.sink import PublishFailed

SINK_PREFIX = "sink:"
HANDLER_PREFIX = "sink."


async def register_sinks(context: RuntimeContext) -> None:
    """Store the readers of all sinks. On a store with one keeper, sinks that are no longer configured end."""
    store, sinks = context.store, context.config.sinks
    only = SINK_PREFIX if context.one_keeper else None
    if sinks or (only is not None and any(reader.name.startswith(only) for reader in await store.readers.all())):
        await store.readers.register([sink.reader for sink in sinks], only=only)


def add_publisher(loop: Loop, context: RuntimeContext, owner: Owner) -> Publisher | None:
    """Add the publisher, unless no sink is configured."""
    store, config = context.store, context.config
    if not config.sinks:
        return None
    quarantine = partial(_quarantine, store)
    stores = Stores(
        store.readers, store.events, owner, context.clock, context.chance, context.system_events, quarantine
    )
    limits = Limits(config.sink_batch, config.sink_streams)

    def wake() -> None:
        loop.wake(Publisher.name)

    workers = [SinkWorker(make_sink(sink), sink, stores, limits, wake) for sink in config.sinks]
    publisher = Publisher(workers, store.readers, owner, context.clock)
    # On SQLite only this process routes, and that wakes the publisher; elsewhere another process may have routed.
    loop.add(publisher, context.poll_s if context.one_keeper else config.sink_poll_s)
    return publisher


def sink_handlers(
    context: RuntimeContext, publisher: Callable[[], Publisher | None]
) -> dict[str, Callable[..., object]]:
    """A handler for each sink, `handler:sink.NAME`, which sends one event again. Quarantined events go there."""

    async def send(name: str, event: Event) -> None:
        running = publisher()
        worker = None if running is None else running.worker(name)
        if worker is None:
            raise RetryAfter(1.0, f"sink {name} is not running yet")
        try:
            await worker.replay(event.stream, [event])
        except PublishFailed as failed:
            if failed.poison:
                raise Reject(str(failed)) from None
            raise

    def handler(name: str) -> Callable[[Event], Awaitable[None]]:
        async def send_to_sink(event: Event) -> None:
            await send(name, event)

        return send_to_sink

    return {f"{HANDLER_PREFIX}{sink.name}": handler(sink.name) for sink in context.config.sinks}


async def _quarantine(store: Store, sink: str, event: Event) -> None:
    """Hand one event over to the delivery engine, which dead-letters it if the sink still refuses it."""
    address = parse_address(f"handler:{HANDLER_PREFIX}{sink}")
    target = RouteTarget(None, address.text, address.kind, None)
    if not await store.routing.deliver([Plan(event.n, (target,), 0)]):
        raise StoreBusy(f"event {event.id} is not routed yet; it is quarantined as soon as it is")

"""A store with a router, a publisher and sinks in memory, driven tick by tick with the test's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.domain.event import Event, new_event
from holdfast.domain.retry import POLICIES
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.open import open_store
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.store import Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.streams.publisher import Publisher
from holdfast.streams.sink_worker import Limits, SinkWorker, Stores
from holdfast.streams.sinks.sink import SinkConfig
from holdfast.testing.clock import ManualClock, SeededChance


class MemorySink:
    """Keeps what was published. A test replaces `before` to fail or to wait."""

    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.batches: list[tuple[str, list[int]]] = []
        self.events: dict[str, list[Event]] = {}
        self.running: set[str] = set()
        self.before: Callable[[str, Sequence[Event]], object] = lambda stream, events: None
        self.opened = 0

    async def open(self) -> None:
        self.opened += 1

    async def publish(self, stream: str, events: Sequence[Event], replay: bool = False) -> None:
        assert stream not in self.running, f"two calls at a time for {stream}"
        self.running.add(stream)
        try:
            waiting = self.before(stream, events)
            if asyncio.iscoroutine(waiting):
                await waiting
            self.batches.append((stream, [event.seq for event in events]))
            self.events.setdefault(stream, []).extend(events)
        finally:
            self.running.discard(stream)

    async def durability(self) -> str:
        return "Everything is lost with the process."

    async def close(self) -> None:
        pass

    def seqs(self, stream: str) -> list[int]:
        return [event.seq for event in self.events.get(stream, [])]


class RecordedAlarms:
    def __init__(self) -> None:
        self.stuck: list[tuple[str, str | None, int | None, str]] = []
        self.skipped: list[tuple[str, str, str]] = []

    async def reader_stuck(self, reader: str, stream: str | None, position: int | None, error: str) -> None:
        self.stuck.append((reader, stream, position, error))

    async def event_skipped(self, reader: str, event: Event, error: str) -> None:
        self.skipped.append((reader, event.id, error))


class PublishHarness:
    store: Store
    owner: Owner

    def __init__(self, url: str, driver: str = "apsw") -> None:
        """`driver`: sqlite3 if the test itself opens the file with it; two libraries in a process break each other."""
        self.url, self.driver, self.clock, self.chance = url, driver, ManualClock(), SeededChance(1)
        self.alarms = RecordedAlarms()
        self.quarantined: list[tuple[str, str]] = []
        self.publisher: Publisher

    async def start(
        self, *sinks: MemorySink, pattern: str = "run:*", limits: Limits | None = None, **more: str
    ) -> None:
        keep = self.url.startswith("sqlite")
        self.store = open_store(self.url, driver=self.driver, keep=keep, clock=self.clock, chance=self.chance)
        self.owner = await self.store.owners.register()
        configs = [SinkConfig(sink.name, "memory://", pattern, **more) for sink in sinks]
        await self.store.readers.register([config.reader for config in configs])
        self.router = Router(
            self.store.routing, Registry(self.store.contracts, POLICIES, readers=self.store.readers), self.owner
        )
        stores = Stores(
            self.store.readers, self.store.events, self.owner, self.clock, self.chance, self.alarms, self._quarantine
        )
        workers = [
            SinkWorker(sink, config, stores, limits or Limits(), lambda: None)
            for sink, config in zip(sinks, configs, strict=True)
        ]
        self.publisher = Publisher(workers, self.store.readers, self.owner, self.clock)

    async def append(self, *streams: str) -> None:
        await self.store.events.append([new_event("t", stream=stream) for stream in streams])

    async def route(self) -> None:
        while await self.router.tick() is not None:
            pass

    async def publish(self) -> float | None:
        """Tick until nothing can be done now. Returns the wait that the publisher then asks for."""
        for _ in range(10_000):
            wait = await self.publisher.tick()
            await asyncio.sleep(0)
            if all(worker.is_idle for worker in self.publisher.workers) and (wait is None or wait > 0.005):
                return wait
        raise AssertionError("the publisher does not come to rest")

    async def run(self) -> float | None:
        await self.route()
        return await self.publish()

    async def position(self, stream: str, sink: str = "memory") -> int | None:
        cursor = await self.store.cursors.get(f"sink:{sink}", stream)
        return None if cursor is None else cursor.position

    async def delete_event(self, seq: int) -> None:
        """Remove an event as no part of Holdfast would."""
        if isinstance(self.store, SqliteStore):
            await self.store._writer.run(lambda c: c.run("DELETE FROM holdfast_events WHERE seq = ?", (seq,)))
            await self.store._writer.run(lambda c: c.run("DELETE FROM holdfast_unmatched"))
        elif isinstance(self.store, PostgresStore):
            await self.store._pool.run(lambda c: c.run("DELETE FROM {schema}.events WHERE seq = $1", seq))
            await self.store._pool.run(lambda c: c.run("DELETE FROM {schema}.unmatched"))

    async def close(self) -> None:
        await self.publisher.close()
        await self.store.close()

    async def _quarantine(self, sink: str, event: Event) -> None:
        self.quarantined.append((sink, event.id))


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder}/store.db"

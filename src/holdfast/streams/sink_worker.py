"""Publishes to one sink: leases lagging streams, sends their events in order, advances the cursors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from holdfast.domain.event import Event
from holdfast.ports import Chance, Clock
from holdfast.store.roles.events import Events
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.readers import Progress, Readers, StreamLease
from holdfast.streams.backoff import backoff_s
from holdfast.streams.sequence import describe_gap, unbroken
from holdfast.streams.sinks.sink import PublishFailed, Sink, SinkConfig
from holdfast.streams.statistics import SinkStatistics
from holdfast.streams.turns import StreamLocks

LEASE_MS = 60_000
PUBLISH_S = 20.0
"""How long one batch may take. A stream is leased for at most two batches of that length at a time."""
BATCHES_READ = 4
BYTES_READ_MAX = 2 * 1024 * 1024
STOPPED_FAILURES = 100  # as if it had failed that often: the longest pause
STUCK_MS = 5 * 60 * 1000
LOG_EVERY = 20

log = logging.getLogger("holdfast.streams")


class Limits(NamedTuple):
    """`batch`: events in one call of a sink. `streams`: how many streams are published to a sink at a time."""

    batch: int = 100
    streams: int = 50


class Alarms(Protocol):
    """Notifies operators."""

    async def reader_stuck(self, reader: str, stream: str | None, position: int | None, error: str) -> None:
        """A reader does not get ahead, in one stream or (None) in all."""

    async def event_skipped(self, reader: str, event: Event, error: str) -> None:
        """A sink refused an event for good, and its reader continued without it."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The roles that publishing uses. `quarantine`: let the delivery engine handle an event, by the sink's name."""

    readers: Readers
    events: Events
    owner: Owner
    clock: Clock
    chance: Chance
    alarms: Alarms
    quarantine: Callable[[str, Event], Awaitable[None]]


class SinkWorker:
    """One sink of one process. `step` never waits for the sink: sending runs in tasks that wake the publisher."""

    def __init__(
        self, sink: Sink, config: SinkConfig, stores: Stores, limits: Limits, wake: Callable[[], None]
    ) -> None:
        self.sink, self.config, self._stores, self._limits, self._wake = sink, config, stores, limits, wake
        self.reader = config.reader.name
        self.statistics = SinkStatistics(stores.clock.now_ms())
        self._running: set[asyncio.Task[None]] = set()
        self._results: list[Progress] = []
        self._turns = StreamLocks()
        self._opened = self._opening = False
        self._failures = 0
        self._failing_since_ms: int | None = None
        self._alarmed = False
        self._paused_until_ms = 0
        self.last_error: str | None = None

    @property
    def is_idle(self) -> bool:
        return not self._running and not self._results and not self._opening

    async def step(self) -> float | None:
        """Settle what was sent, and begin with more. Returns the seconds of a pause after a failure, if any."""
        await self.settle()
        pause_ms = self._paused_until_ms - self._stores.clock.boot_ms()
        if pause_ms > 0:
            return pause_ms / 1000
        if not self._opened:
            if not self._opening:
                self._opening = True
                self._start(self._open())
            return None
        await self._claim()
        return None

    async def settle(self) -> None:
        """Advance cursors as far as the sink confirmed. A lost lease is only logged: another process has the stream."""
        results, self._results = self._results, []
        if not results:
            return
        try:
            held = await self._stores.readers.settle(results)
        except BaseException:
            self._results = results + self._results
            raise
        for lease in (result.lease for result in results):
            if (lease.reader, lease.stream) not in held:
                log.warning("%s lost its lease of stream %s; another process continues", self.reader, lease.stream)

    def cancel(self) -> None:
        """Stop at once. What the sink confirmed meanwhile is sent again by the next process."""
        for task in self._running:
            task.cancel()

    async def close(self, grace_s: float) -> None:
        """Let running batches finish, settle them, and disconnect."""
        if self._running:
            await asyncio.wait(self._running, timeout=grace_s)
        self.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self.settle()
        try:
            async with asyncio.timeout(grace_s):
                await self.sink.close()
        except Exception as error:
            log.warning("sink %s could not be closed: %s", self.config.name, error)

    async def _claim(self) -> None:
        # After a failure one stream is tried first: the sink may still be out of reach.
        free = (1 if self._failures else self._limits.streams) - len(self._running)
        if free <= 0:
            return
        stores = self._stores
        leases = await stores.readers.claim(self.reader, free, LEASE_MS, stores.owner.id)
        if not leases:
            return
        places = [(lease.stream, lease.position) for lease in leases]
        try:
            found = await stores.events.read_many(places, self._limits.batch * BATCHES_READ, BYTES_READ_MAX)
        except BaseException:  # give the leases back with the next step
            self._results += [Progress(lease, lease.position, lease.since_ms) for lease in leases]
            raise
        for lease, events in zip(leases, found, strict=True):
            self._start(self._work(lease, events))

    async def _work(self, lease: StreamLease, events: Sequence[Event]) -> None:
        try:
            result = await self._publish(lease, events[: unbroken(lease.position, events)])
        except Exception as error:
            log.exception("publishing stream %s to sink %s failed", lease.stream, self.config.name)
            result = self._failure(lease, lease.position, lease.since_ms, f"{type(error).__name__}: {error}")
        self._results.append(result)

    async def _publish(self, lease: StreamLease, events: Sequence[Event]) -> Progress:
        if not events:
            return await self._explain_none(lease)
        position, since_ms, began_ms = lease.position, lease.since_ms, self._stores.clock.boot_ms()
        for start in range(0, len(events), self._limits.batch):
            part = events[start : start + self._limits.batch]
            failed = await self._send(lease.stream, part)
            done = part if failed is None else part[: failed.published]
            if done:
                position, since_ms = done[-1].seq, done[-1].accepted_at_ms
                self.statistics.add(done, self._stores.clock.now_ms())
            if failed is not None:
                return await self._fail(lease, position, since_ms, failed, part[len(done) :])
            self._succeed()
            if self._stores.clock.boot_ms() - began_ms > PUBLISH_S * 1000:
                break
        return Progress(lease, position, since_ms)

    async def _explain_none(self, lease: StreamLease) -> Progress:
        """No event follows the cursor: all were read already, or there is a gap."""
        if lease.head <= lease.position:
            return Progress(lease, lease.position, lease.since_ms)
        first = await self._stores.events.first_seq(lease.stream)
        return await self._stop_stream(
            lease, lease.position, lease.since_ms, describe_gap(lease.stream, lease.position, first)
        )

    async def replay(self, stream: str, events: Sequence[Event]) -> None:
        """Send events again, marked as a replay. Raises PublishFailed."""
        if not self._opened:
            await self.sink.open()
        for start in range(0, len(events), self._limits.batch):
            failed = await self._send(stream, events[start : start + self._limits.batch], replay=True)
            if failed is not None:
                failed.published += start
                raise failed

    async def _send(self, stream: str, part: Sequence[Event], replay: bool = False) -> PublishFailed | None:
        try:
            async with asyncio.timeout(PUBLISH_S), self._turns.of(stream):
                await self.sink.publish(stream, part, replay)
        except PublishFailed as failed:
            failed.published = max(0, min(failed.published, len(part)))
            return failed
        except TimeoutError:
            return PublishFailed(f"sink {self.config.name}: no answer within {PUBLISH_S:g} s")
        except Exception as error:
            log.exception("sink %s failed in an unexpected way", self.config.name)
            return PublishFailed(f"sink {self.config.name}: {type(error).__name__}: {error}")
        return None

    async def _fail(
        self, lease: StreamLease, position: int, since_ms: int, failed: PublishFailed, rest: Sequence[Event]
    ) -> Progress:
        error = str(failed)
        self.statistics.failures += 1
        if not failed.poison or not rest:
            await self._pause(error)
            return self._failure(lease, position, since_ms, error)
        if self.config.poison == "stop":
            return await self._stop_stream(lease, position, since_ms, error)
        return await self._skip_event(lease, rest[0], error)

    async def _skip_event(self, lease: StreamLease, event: Event, error: str) -> Progress:
        """Continue after an event that the sink refuses for good."""
        if self.config.poison == "quarantine":
            await self._stores.quarantine(self.config.name, event)
        log.warning("%s passed over event %s of stream %s: %s", self.reader, event.id, lease.stream, error)
        await self._stores.alarms.event_skipped(self.reader, event, error)
        self.statistics.skipped += 1
        return Progress(lease, event.seq, event.accepted_at_ms)

    async def _stop_stream(self, lease: StreamLease, position: int, since_ms: int, error: str) -> Progress:
        """The stream cannot go on without an operator: try again slowly, and notify once."""
        if not lease.alarmed:
            log.error("%s stopped in stream %s after %d: %s", self.reader, lease.stream, position, error)
            await self._stores.alarms.reader_stuck(self.reader, lease.stream, position, error)
        return Progress(lease, position, since_ms, self._delay_ms(STOPPED_FAILURES), error, alarmed=True)

    def _failure(self, lease: StreamLease, position: int, since_ms: int, error: str) -> Progress:
        return Progress(lease, position, since_ms, self._delay_ms(lease.failures + 1), error, lease.alarmed)

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(PUBLISH_S):
                await self.sink.open()
        except Exception as error:
            if not isinstance(error, PublishFailed | TimeoutError):
                log.exception("sink %s could not be opened", self.config.name)
            self.statistics.failures += 1
            await self._pause(str(error) or f"sink {self.config.name}: no connection within {PUBLISH_S:g} s")
        else:
            self._opened = True
        finally:
            self._opening = False

    async def _pause(self, error: str) -> None:
        """Wait before the sink is used again. Failures during a pause belong to the same outage."""
        now_ms = self._stores.clock.boot_ms()
        self.last_error = error
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
        if now_ms >= self._paused_until_ms:
            self._failures += 1
            delay_s = backoff_s(self._failures, self._stores.chance.fraction())
            self._paused_until_ms = now_ms + round(delay_s * 1000)
            if self._failures == 1 or self._failures % LOG_EVERY == 0:
                log.warning("%s (%d times in a row); retry in %.1f s", error, self._failures, delay_s)
        if not self._alarmed and now_ms - self._failing_since_ms >= STUCK_MS:
            self._alarmed = True
            await self._stores.alarms.reader_stuck(self.reader, None, None, error)

    def _succeed(self) -> None:
        if self._failures:
            log.info("sink %s works again after %d failures", self.config.name, self._failures)
        self._failures, self._failing_since_ms, self._paused_until_ms = 0, None, 0
        self._alarmed, self.last_error = False, None

    def _delay_ms(self, failures: int) -> int:
        return round(backoff_s(failures, self._stores.chance.fraction()) * 1000)

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"holdfast:{self.reader}")
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("publishing to sink %s failed: %s", self.config.name, error, exc_info=error)
        self._wake()

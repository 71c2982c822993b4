"""The publisher: the one loop that reads streams in order, sends their events to sinks and advances the cursors.

What it looks at is the list of lagging streams, so a cycle costs the same with a hundred streams and with a hundred
thousand. Being woken only shortens the wait: polling alone is correct.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.ports import Clock
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.readers import Readers
from holdfast.streams.sink_worker import SinkWorker

RECLAIM_MS = 1000
SEEN_MS = 3600 * 1000
CLOSE_S = 5.0
DUE_AGAIN_MS = 5  # another process is just taking the stream that is due


class Publisher:
    """The duty that runs every sink of this process."""

    name = "publisher"

    def __init__(self, workers: Sequence[SinkWorker], readers: Readers, owner: Owner, clock: Clock) -> None:
        self.workers = workers
        self._readers, self._owner, self._clock = readers, owner, clock
        self._unsurveyed = [worker.reader for worker in workers]
        self._reclaim_at_ms = 0
        self._seen_at_ms = clock.boot_ms() + SEEN_MS

    async def tick(self) -> float | None:
        """Settle what was sent, and send more. Returns the seconds until a stream or a sink may be tried again."""
        await self._maintain()
        pauses = [await worker.step() for worker in self.workers]
        if self._unsurveyed:
            return 0.0
        waits = [pause for pause in pauses if pause is not None]
        idle = [
            worker.reader
            for worker, pause in zip(self.workers, pauses, strict=True)
            if pause is None and worker.is_idle
        ]
        if idle and (due_ms := await self._readers.next_due(idle)) is not None:
            waits.append(max(due_ms, DUE_AGAIN_MS) / 1000)
        return min(waits) if waits else None

    def worker(self, sink: str) -> SinkWorker | None:
        """The worker of a sink, by its name."""
        return next((worker for worker in self.workers if worker.config.name == sink), None)

    async def close(self) -> None:
        """Let running batches finish, settle them, and disconnect from the sinks."""
        for worker in self.workers:
            await worker.close(CLOSE_S)

    def cancel(self) -> None:
        """Stop at once, without writing to the store."""
        for worker in self.workers:
            worker.cancel()

    async def _maintain(self) -> None:
        """Free the streams of dead processes, look for stored streams of a new sink, and show that sinks are in use."""
        now_ms = self._clock.boot_ms()
        if now_ms >= self._reclaim_at_ms:
            self._reclaim_at_ms = now_ms + RECLAIM_MS
            await self._readers.reclaim(self._owner.id)
        if self._unsurveyed and not await self._readers.survey(self._unsurveyed[0]):
            del self._unsurveyed[0]
        if now_ms >= self._seen_at_ms:
            self._seen_at_ms = now_ms + SEEN_MS
            await self._readers.register([worker.config.reader for worker in self.workers])

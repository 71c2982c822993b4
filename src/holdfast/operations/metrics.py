"""The figures behind `/metrics`. The number of queues it names is limited, however many contracts there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from holdfast.domain.address import without_tokens
from holdfast.domain.states import State
from holdfast.operations.answers.metrics import Metrics
from holdfast.operations.context import OperationsContext
from holdfast.operations.readers import ReaderVerbs
from holdfast.store.roles.operator import DeliveryFilter
from holdfast.version import __version__

QUEUES_SHOWN = READERS_SHOWN = 100
PENDING_COUNTED_MAX = 1_000_000


class MetricVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._context, self._store, self._readers = context, context.store, ReaderVerbs(context)

    async def show(self) -> Metrics:
        """Everything that `/metrics` shows."""
        context, store = self._context, self._store
        figures = await store.operator.figures()
        oldest_ms = figures.oldest_pending_ms
        now_ms = context.clock.now_ms()
        return Metrics(
            version=__version__,
            figures=figures,
            sizes=await store.maintenance.sizes(),
            counts=context.counts,
            pending_by_queue=await self._pending_by_queue(figures.pending),
            dead_by_queue=await self._dead_by_queue() if figures.dead else {},
            duties={name: state == "ok" for name, state in context.health().items()},
            accepting=store.maintenance.refusal() is None,
            oldest_pending_seconds=None if oldest_ms is None else max(0.0, (now_ms - oldest_ms) / 1000),
            spooled=context.spooled(),
            paused=len(await store.operator.pauses()),
            breakers_open=len(await store.gates.open()),
            misconfigured=len(context.faults()),
            readers=(await self._readers.find()).items[:READERS_SHOWN],
        )

    async def _pending_by_queue(self, pending: int) -> dict[str, int] | None:
        """Counting them reads the ready queue, whose length is not limited."""
        if pending > PENDING_COUNTED_MAX:
            return None
        return _most(await self._store.operator.count_pending(QUEUES_SHOWN)) if pending else {}

    async def _dead_by_queue(self) -> dict[str, int]:
        return _most(await self._store.operator.count_dead(DeliveryFilter(state=State.DEAD.value)))


def _most(counts: Mapping[str, int]) -> dict[str, int]:
    """The queues with the highest counts, by names without secrets."""
    by_queue: Counter[str] = Counter()
    for queue, count in counts.items():
        by_queue[without_tokens(queue)] += count
    return dict(by_queue.most_common(QUEUES_SHOWN))

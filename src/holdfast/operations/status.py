"""The daemon's state for operators: health, queue counts, what is paused or misconfigured."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from holdfast.domain.address import without_tokens
from holdfast.domain.event import iso_time
from holdfast.home import masked_url
from holdfast.operations.answers.fields import time_or_none
from holdfast.operations.answers.receipts import checked_receipts
from holdfast.operations.answers.status import (
    MisconfiguredContract,
    PausedItem,
    QueueAnswer,
    Status,
    StuckLaneAnswer,
    WorkingDaemon,
)
from holdfast.operations.context import OperationsContext
from holdfast.operations.contract_health import find_faults
from holdfast.operations.readers import ReaderVerbs
from holdfast.store.roles.operator import StuckLane
from holdfast.store.roles.owners import WorkingOwner
from holdfast.store.roles.page import PAGE_MAX
from holdfast.version import __version__

STUCK_MAX = 20


class StatusVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._context, self._store = context, context.store
        self._readers = ReaderVerbs(context)
        self._started_ms = context.clock.now_ms()

    async def show(self) -> Status:
        """Daemon health and queue counts. What cannot be known is None, never 0."""
        context, store = self._context, self._store
        figures = await store.operator.figures()
        now_ms = context.clock.now_ms()
        oldest_ms = figures.oldest_pending_ms
        duties, paused = context.health(), await store.operator.pauses()
        refusal = store.maintenance.refusal()
        faults = await self._faults(now_ms)
        hidden = [f"{len(paused) - PAGE_MAX:,} more are paused than are listed"] if len(paused) > PAGE_MAX else []
        return Status(
            version=__version__,
            store=masked_url(store.url),
            queue=await store.queue_admin.kind(),
            healthy=self._is_healthy(refusal, duties),
            not_accepting=refusal,
            uptime_seconds=None if context.detached else round((now_ms - self._started_ms) / 1000, 1),
            events=figures.events,
            unmatched=figures.unmatched,
            streams=figures.streams,
            unrouted=figures.unrouted,
            pending=figures.pending,
            in_flight=figures.in_flight,
            lanes=figures.lanes,
            dead=figures.dead,
            dead_by_reason=dict(figures.dead_by_reason),
            spooled=None if context.detached else context.spooled(),
            hooks=context.hooks(),
            oldest_pending_seconds=None if oldest_ms is None else max(0, (now_ms - oldest_ms) // 1000),
            next_due_at=time_or_none(figures.next_due_ms),
            paused=[PausedItem(scope, without_tokens(name)) for scope, name, _ in paused[:PAGE_MAX]],
            misconfigured=[MisconfiguredContract(id, why) for id, why in islice(faults.items(), PAGE_MAX)],
            disabled=(await self._disabled(now_ms))[:PAGE_MAX],
            stuck=[_stuck(lane) for lane in await store.operator.stuck_lanes(STUCK_MAX)],
            breakers=[without_tokens(gate.address) for gate in await store.gates.open()],
            receipts=checked_receipts(await store.receipts.checked()),
            sessions=await store.sessions.count(),
            readers=(await self._readers.find()).items,
            daemons=[_daemon(owner) for owner in await store.owners.working(PAGE_MAX)],
            duties=duties,
            notes=[*context.warnings(), *store.maintenance.notes(), *hidden],
        )

    def _is_healthy(self, refusal: str | None, duties: Mapping[str, str]) -> bool | None:
        if refusal is not None:
            return False
        return None if self._context.detached else all(state == "ok" for state in duties.values())

    async def _disabled(self, now_ms: int) -> list[str]:
        contracts = await self._store.contracts.all(inactive=True)
        return sorted(one.id for one in contracts if not one.active and not one.retired and not one.is_expired(now_ms))

    async def queues(self, limit: int) -> list[QueueAnswer]:
        """The contracts and direct addresses for which the most waits. Counting it reads the whole backlog."""
        now_ms, operator = self._context.clock.now_ms(), self._store.operator
        found = []
        for name, pending in (await operator.count_pending(limit)).items():
            backlog = await operator.backlog(name)
            oldest_ms = None if backlog is None else backlog.oldest_ms
            found.append(
                QueueAnswer(
                    name=without_tokens(name),
                    contract_id=None if backlog is None else backlog.contract,
                    pending=pending,
                    in_flight=0 if backlog is None else backlog.in_flight,
                    oldest_pending_seconds=None if oldest_ms is None else max(0, now_ms - oldest_ms) // 1000,
                )
            )
        return found

    async def _faults(self, now_ms: int) -> dict[str, str]:
        """Why contracts are not delivered: as the router saw it, and as the store shows it now."""
        context = self._context
        current = await find_faults(self._store.contracts, context.policies, context.served(), now_ms)
        return {**context.faults(), **current}


def _stuck(lane: StuckLane) -> StuckLaneAnswer:
    return StuckLaneAnswer(
        lane=without_tokens(lane.lane),
        waiting=lane.waiting,
        delivery_id=lane.delivery,
        event_id=lane.event_id,
        attempts=lane.attempts,
        last_error=lane.error,
        since=iso_time(lane.since_ms),
    )


def _daemon(owner: WorkingOwner) -> WorkingDaemon:
    return WorkingDaemon(
        owner=owner.id,
        host=owner.host,
        pid=owner.pid,
        alive=owner.alive,
        since=iso_time(owner.started_ms),
        last_seen_at=time_or_none(owner.seen_ms),
        deliveries=owner.deliveries,
        streams=owner.streams,
        chain=owner.chain,
    )

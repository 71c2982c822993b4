"""The daemon's state for operators: health, queue counts, what is paused or misconfigured."""

from __future__ import annotations

from itertools import islice

from holdfast.domain.address import without_tokens
from holdfast.home import shown_url
from holdfast.operations.answers.fields import time_or_none
from holdfast.operations.answers.status import MisconfiguredContract, PausedItem, Status
from holdfast.operations.context import OperationsContext
from holdfast.operations.contract_health import find_faults
from holdfast.store.roles.page import PAGE_MAX
from holdfast.version import __version__


class StatusVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._context, self._store = context, context.store
        self._started_ms = context.clock.now_ms()

    async def show(self) -> Status:
        """Daemon health and queue counts. What cannot be known is None, never 0."""
        context, store = self._context, self._store
        figures = await store.operator.figures()
        now_ms = context.clock.now_ms()
        oldest_ms = figures["oldest_pending_ms"]
        duties, paused = context.health(), await store.operator.pauses()
        refusal = store.maintenance.refusal()
        faults = await self._faults(now_ms)
        hidden = [f"{len(paused) - PAGE_MAX:,} more are paused than are listed"] if len(paused) > PAGE_MAX else []
        return Status(
            version=__version__,
            store=shown_url(store.url),
            healthy=refusal is None and all(state == "ok" for state in duties.values()),
            not_accepting=refusal,
            uptime_seconds=round((now_ms - self._started_ms) / 1000, 1),
            events=figures["events"],
            unmatched=figures["unmatched"],
            streams=figures["streams"],
            unrouted=figures["unrouted"],
            pending=figures["pending"],
            in_flight=figures["in_flight"],
            lanes=figures["lanes"],
            dead=figures["dead"],
            spooled=context.spooled(),
            hooks=context.hooks(),
            oldest_pending_seconds=None if oldest_ms is None else max(0, (now_ms - oldest_ms) // 1000),
            next_due_at=time_or_none(figures["next_due_ms"]),
            paused=[PausedItem(scope, without_tokens(name)) for scope, name, _ in paused[:PAGE_MAX]],
            misconfigured=[MisconfiguredContract(id, why) for id, why in islice(faults.items(), PAGE_MAX)],
            breakers=[without_tokens(gate.address) for gate in await store.gates.open()],
            duties=duties,
            notes=[*context.warnings(), *store.maintenance.notes(), *hidden],
        )

    async def _faults(self, now_ms: int) -> dict[str, str]:
        """Why contracts are not delivered: as the router saw it, and as the store shows it now."""
        context = self._context
        current = await find_faults(self._store.contracts, context.policies, context.served(), now_ms)
        return {**context.faults(), **current}

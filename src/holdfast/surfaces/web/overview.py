"""The first screen: what needs attention, rates over time, queues, contracts, sessions, receipts and processes."""

from __future__ import annotations

import asyncio

from holdfast.operations.answers.fleet import FleetComponentAnswer
from holdfast.operations.answers.status import QueueAnswer
from holdfast.operations.verbs import Operations
from holdfast.surfaces.web.charts import charts_of
from holdfast.surfaces.web.page import Page, Visit
from holdfast.surfaces.web.trouble import SHOWN

FLEET_S = 1.0
PENDING_COUNTED_MAX = 200_000


async def overview(visit: Visit) -> Page:
    operations = visit.operations
    span = "day" if visit.query("span") == "day" else "hour"
    found = await visit.trouble.findings(fresh=True)
    contracts = found.contracts[:SHOWN]
    heads, history, figures, queues, fleet = await asyncio.gather(
        operations.receipts.heads(),
        operations.history.show(span),
        operations.contracts.statistics_of([contract.id for contract in contracts]),
        _queues(operations, found.status.pending),
        _fleet(operations),
    )
    task = visit.running.get("verify")
    values: dict[str, object] = {
        "status": found.status,
        "attention": found.attention,
        "contracts": list(zip(contracts, figures, strict=True)),
        "more_contracts": len(found.contracts) > SHOWN,
        "sessions": found.sessions,
        "heads": heads.items,
        "verifying": task is not None and not task.done(),
        "queues": queues,
        "fleet": fleet,
        "charts": charts_of(history, span),
        "span": span,
    }
    return Page("overview.html", "Overview", values)


async def _fleet(operations: Operations) -> list[FleetComponentAnswer]:
    """The other components, as far as they are known in time: one that cannot be reached must not hold up the page."""
    try:
        async with asyncio.timeout(FLEET_S):
            return (await operations.fleet.show()).components[1:]
    except TimeoutError:
        return []


async def _queues(operations: Operations, pending: int) -> list[QueueAnswer] | None:
    """The queues for which the most waits; None if there is so much that counting it would take too long."""
    return await operations.status.queues(SHOWN) if pending <= PENDING_COUNTED_MAX else None

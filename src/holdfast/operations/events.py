"""Verbs on events: append, list, show, explain, route again."""

from __future__ import annotations

from typing import Any

from holdfast.domain.errors import BadInput, NotFound
from holdfast.domain.event import Event, NewEvent
from holdfast.domain.text import short_repr
from holdfast.operations.answers import (
    LIMIT_DEFAULT,
    check_cursor,
    check_limit,
    delivery_shape,
    event_shape,
    weigh,
    with_fault,
)
from holdfast.operations.context import OperationsContext
from holdfast.operations.explain import NEAR_DEFAULT, ask_all, moments_of, receipts_of, verdict
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow
from holdfast.store.roles.page import PAGE_BYTES_MAX, PAGE_MAX


class EventVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._store, self._faults = context.store, context.faults

    async def append(self, event: NewEvent) -> dict[str, Any]:
        return (await self._store.events.append([event]))[0].as_dict()

    async def show(self, id: str) -> dict[str, Any]:
        """The event and what became of it everywhere."""
        event = await self._get(id)
        page = await self._store.operator.deliveries(DeliveryFilter(event=id), None, PAGE_MAX)
        return event_shape(event, [with_fault(row, self._faults()) for row in page.items[::-1]])

    async def explain(self, id: str, limit: int = NEAR_DEFAULT) -> dict[str, Any]:
        """Why an event went where it went: its deliveries with attempts and receipts, and which contracts match it now.

        Contracts that did not match come nearest first: by the share of their criteria that failed, of which type and
        source weigh most. Each list is cut at `limit`; of the attempts and receipts the last are kept. Deliveries end
        earlier where the answer grows too heavy.
        """
        check_limit(limit)
        event = await self._get(id)
        page = await self._store.operator.deliveries(DeliveryFilter(event=id), None, PAGE_MAX)
        rows = page.items[::-1]
        opinions = await ask_all(await self._store.contracts.all(inactive=True), event, limit)
        reached = {row.contract_id for row in rows}
        late = [contract for contract in opinions.wanting if contract not in reached]
        told = await self._told(rows[:limit], limit)
        return {
            "event": event_shape(event),
            "verdict": verdict(opinions, len(rows), late, event.to is not None),
            "deliveries": told,
            "deliveries_left_off": len(rows) - len(told),
            "wanted_now": opinions.wanting[:limit],
            "wanted_now_left_off": len(opinions.wanting[limit:]),
            "missed": [missed.as_dict() for missed in opinions.nearest],
            "missed_left_off": opinions.missing - len(opinions.nearest),
        }

    async def find(
        self,
        *,
        source: str | None = None,
        type: str | None = None,
        stream: str | None = None,
        unmatched: bool = False,
        after: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> dict[str, Any]:
        """Newest first."""
        wanted = EventFilter(source, type, stream, unmatched)
        page = await self._store.events.find(wanted, check_cursor(after), check_limit(limit))
        return {"items": [event_shape(event) for event in page.items], "next": page.next}

    async def route(self, ids: list[str]) -> dict[str, Any]:
        """Offer events that nobody wanted to the contracts there are now."""
        if not 1 <= len(ids) <= PAGE_MAX:
            raise BadInput(f"name 1 to {PAGE_MAX} events to route again, not {len(ids)}")
        return {"routed": await self._store.events.reroute(ids)}

    async def _told(self, rows: list[DeliveryRow], limit: int) -> list[dict[str, Any]]:
        told, size, moments = list[dict[str, Any]](), 0, set[int]()
        for row in rows:
            attempts = (await self._store.operator.attempts(row.id))[-limit:]
            told.append(delivery_shape(with_fault(row, self._faults()), attempts))
            moments |= moments_of(row, attempts)
            size += weigh(told[-1])
            if size >= PAGE_BYTES_MAX:
                break
        links = await self._store.receipts.at(list(moments), PAGE_MAX) if moments else []
        return [{**one, "receipts": receipts_of(row.id, links)[-limit:]} for row, one in zip(rows, told, strict=False)]

    async def _get(self, id: str) -> Event:
        event = await self._store.events.get(id)
        if event is None:
            raise NotFound(f"there is no event {short_repr(id)}; it may have been pruned")
        return event

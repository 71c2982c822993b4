"""Verbs on events: append, list, show, explain, route again."""

from __future__ import annotations

import time

from holdfast.domain.errors import BadInput, Conflict, NotFound
from holdfast.domain.event import Event, NewEvent
from holdfast.domain.event_search import search_words
from holdfast.domain.text import short_repr
from holdfast.operations.answers.deliveries import delivery_answer, delivery_with_history
from holdfast.operations.answers.encode import encoded_bytes
from holdfast.operations.answers.events import (
    AppendedEvent,
    EventAnswer,
    EventWithDeliveries,
    RoutedEvents,
    event_answer,
    event_with_deliveries,
)
from holdfast.operations.answers.explain import EventExplanation, ExplainedDelivery
from holdfast.operations.answers.fields import DeliveryState, extend
from holdfast.operations.answers.page import LIMIT_DEFAULT, Page, check_cursor, check_limit
from holdfast.operations.context import LOCAL, OperationsContext
from holdfast.operations.explain import NEAREST_DEFAULT, change_times, match_all, receipts_of, verdict
from holdfast.operations.waiting import find_wait_reasons
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow
from holdfast.store.roles.page import PAGE_BYTES_MAX, PAGE_MAX

PREFIX_MIN = 10  # characters of an id that people may type instead of all
ID_LENGTH = 36


class EventVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._context, self._store, self._owner = context, context.store, context.owner

    async def append(self, event: NewEvent, way: str = "api") -> AppendedEvent:
        """Store an event. It is durable when this returns. `way`: how it came in, for the metrics."""
        started_ns = time.time_ns()
        appended = AppendedEvent(*(await self._store.events.append([event]))[0])
        if not appended.duplicate:
            self._context.counts.accepted(way, 1)
            self._context.tracing.accepted(event, appended.id, started_ns)
        return appended

    async def show(self, id: str) -> EventWithDeliveries:
        """One event and its deliveries."""
        event = await self._get(id)
        page = await self._store.operator.deliveries(DeliveryFilter(event=id), None, PAGE_MAX)
        reasons = await find_wait_reasons(self._context, page.items)
        return event_with_deliveries(event, [delivery_answer(row, reasons) for row in page.items[::-1]])

    async def explain(self, id: str, limit: int = NEAREST_DEFAULT) -> EventExplanation:
        """Why an event went where it went: its deliveries with attempts and receipts, and which contracts match it now.

        Contracts that did not match come nearest first: by the share of their criteria that failed, of which type and
        source weigh most. Each list is cut at `limit`; of the attempts and receipts the last are kept. The list of
        deliveries ends early at `PAGE_BYTES_MAX`.
        """
        check_limit(limit)
        event = await self._get(id)
        page = await self._store.operator.deliveries(DeliveryFilter(event=id), None, PAGE_MAX)
        rows = page.items[::-1]
        matches = await match_all(await self._store.contracts.all(inactive=True), event, limit)
        delivered_to = {row.contract_id for row in rows}
        late = [contract_id for contract_id in matches.matching if contract_id not in delivered_to]
        deliveries = await self._explain_deliveries(rows[:limit], limit)
        return EventExplanation(
            event=event_answer(event),
            verdict=verdict(matches, len(rows), late, event.to is not None),
            deliveries=deliveries,
            deliveries_left_off=len(rows) - len(deliveries),
            wanted_now=matches.matching[:limit],
            wanted_now_left_off=len(matches.matching[limit:]),
            missed=[near_miss.as_answer() for near_miss in matches.nearest],
            missed_left_off=matches.missed - len(matches.nearest),
        )

    async def find(
        self,
        *,
        source: str | None = None,
        type: str | None = None,
        stream: str | None = None,
        unmatched: bool = False,
        search: str | None = None,
        after: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> Page[EventAnswer]:
        """Events, newest first. `unmatched`: only those that matched no contract.

        `search`: words that are all in the id, source, type, stream or properties; `name=value` is a property.
        """
        event_filter = EventFilter(source, type, stream, unmatched, search_words(search or ""))
        page = await self._store.events.find(event_filter, check_cursor(after), check_limit(limit))
        return Page([event_answer(event) for event in page.items], page.next)

    async def states(self, ids: list[str]) -> dict[str, dict[DeliveryState, int]]:
        """How many deliveries of each event are in each state, for lists."""
        return await self._store.operator.states_of(ids[:PAGE_MAX])

    async def route(self, ids: list[str], *, actor: str = LOCAL) -> RoutedEvents:
        """Route events that matched no contract again, with the contracts there are now."""
        if not 1 <= len(ids) <= PAGE_MAX:
            raise BadInput(f"name 1 to {PAGE_MAX} events to route again, not {len(ids)}")
        return RoutedEvents(await self._store.events.reroute(ids, by=self._owner.acting(actor)))

    async def _explain_deliveries(self, rows: list[DeliveryRow], limit: int) -> list[ExplainedDelivery]:
        deliveries, size, times_ms = [], 0, set[int]()
        reasons = await find_wait_reasons(self._context, rows)
        for row in rows:
            attempts = (await self._store.operator.attempts(row.id))[-limit:]
            deliveries.append(delivery_with_history(row, attempts, reasons))
            times_ms |= change_times(row, attempts)
            size += encoded_bytes(deliveries[-1])
            if size >= PAGE_BYTES_MAX:
                break
        links = await self._store.receipts.at(list(times_ms), PAGE_MAX) if times_ms else []
        return [
            extend(ExplainedDelivery, delivery, receipts=receipts_of(delivery.id, links)[-limit:])
            for delivery in deliveries
        ]

    async def _get(self, id: str) -> Event:
        """The event with this id, or the only one whose id begins so."""
        event = await self._store.events.get(id)
        if event is None and PREFIX_MIN <= len(id) < ID_LENGTH and id.startswith("evt_"):
            ids = await self._store.events.with_prefix(id)
            if len(ids) > 1:
                raise Conflict(f"several events begin with {id}: give more of the id")
            event = await self._store.events.get(ids[0]) if ids else None
        if event is None:
            raise NotFound(f"there is no event {short_repr(id)}; it may have been pruned")
        return event

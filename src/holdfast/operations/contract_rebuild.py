"""Rebuild a contract's deliveries: create those that it should have, by the stored events, and does not have."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.domain.contract import Contract
from holdfast.domain.errors import BadInput, NotFound
from holdfast.domain.event import Event
from holdfast.domain.lane import lane_key
from holdfast.domain.text import short_repr
from holdfast.operations.answers.contracts import RebuiltContract
from holdfast.operations.answers.page import bad_cursor, is_number
from holdfast.operations.context import OperationsContext
from holdfast.store.roles.feed import FeedPosition
from holdfast.store.roles.maintenance import Retention
from holdfast.store.roles.operator import DeliveryFilter
from holdfast.store.roles.routing import Plan, RouteTarget
from holdfast.store.roles.store import Store

EVENTS_MAX = 500
LATE_MS = 3600 * 1000
"""How much earlier than an event with a higher number one may have been accepted: transactions may stay open."""


async def rebuild_deliveries(
    context: OperationsContext, contract: Contract, after: str | None, limit: int, dry_run: bool, actor: str
) -> RebuiltContract:
    """Look at one page of events, in the order in which they were accepted.

    Events from before the contract are left out, and so are those old enough that their delivery may have been pruned.
    """
    if not 1 <= limit <= EVENTS_MAX:
        raise BadInput(f"limit must be from 1 to {EVENTS_MAX}, not {limit}")
    store = context.store
    since_ms = max(contract.created_at_ms, context.clock.now_ms() - _kept_ms(context.retention))
    page = await store.feed.visible(FeedPosition(await _start(store, after, since_ms)), limit)
    wanted = [
        event
        for event in page.events
        if event.accepted_at_ms >= since_ms
        and contract.matches(event.source, event.type, event.properties, event.accepted_at_ms)
    ]
    lacking = [event for event in wanted if not await _has_delivery(store, contract.id, event.id)]
    missing = len(lacking)
    if lacking and not dry_run:
        queue = await queue_of(store, contract.id)
        plans = [plan_for(contract, queue, event) for event in lacking]
        missing = await store.routing.deliver(plans, by=context.owner.acting(actor))  # others wait for the router
    more = str(page.events[-1].n) if page.events else None
    return RebuiltContract(contract.id, len(page.events), len(wanted), missing, dry_run, more)


async def queue_of(store: Store, id: str) -> int:
    """The queue of a contract."""
    for queue in await store.contracts.queues():
        if queue.contract_id == id:
            return queue.id
    raise NotFound(f"there is no contract {short_repr(id)}")


def plan_for(contract: Contract, queue: int, event: Event) -> Plan:
    """The delivery of one event to a contract, due at once."""
    address = contract.address
    stream = event.stream if event.stream != event.id else None
    lane = lane_key(address.kind, address.text, contract.id, stream, contract.is_ordered)
    return Plan(event.n, (RouteTarget(queue, address.text, address.kind, lane, None, contract.id),), 0)


def _kept_ms(retention: Retention) -> int:
    """For how long no delivery is pruned, however it ended."""
    return min(retention.delivered_ms, retention.inbound_ms, retention.dead_ms)


async def _start(store: Store, after: str | None, since_ms: int) -> int:
    """The number after which to begin: that of the page before, or found by halving the range of numbers."""
    if after is not None:
        if not is_number(after):
            raise bad_cursor(after)
        return int(after)
    low, high = 0, (await store.feed.newest()).low
    while low < high:
        middle = (low + high) // 2
        events = (await store.feed.visible(FeedPosition(middle), 1)).events
        if not events or events[0].accepted_at_ms >= since_ms - LATE_MS:
            high = middle
        else:
            low = events[0].n
    return low


async def _has_delivery(store: Store, contract: str, event: str) -> bool:
    found: Sequence[object] = (
        await store.operator.deliveries(DeliveryFilter(contract=contract, event=event), None, 1)
    ).items
    return bool(found)

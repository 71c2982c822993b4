"""The steps of a queue worker, one by one, on any store."""

from __future__ import annotations

from holdfast.domain.address import KINDS, parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.delivery import Claim, Delivered, Settlement, settle
from holdfast.domain.event import new_event
from holdfast.domain.retry import POLICIES
from holdfast.store.roles.deliveries import ClaimRequest, Served
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.routing import Plan, RouteTarget
from holdfast.store.roles.store import Store


async def send(store: Store, count: int = 1) -> None:
    await store.contracts.put(Contract("c", parse_address("handler:h")), None)
    (queue,) = await store.contracts.queues()
    await store.events.append([new_event("t") for _ in range(count)])
    async with store.routing.batch(500) as batch:
        target = RouteTarget(queue.id, "handler:h", "handler", None)
        assert await batch.commit([Plan(event.n, (target,), 0) for event in batch.events])


async def claim(store: Store, owner: Owner, lease_s: float = 3600) -> list[Claim]:
    leases, room = dict.fromkeys(KINDS, round(lease_s * 1000)), dict.fromkeys(KINDS, 1000)
    request = ClaimRequest(owner.id, Served(frozenset(KINDS), frozenset()), 100, leases, {}, room)
    return (await store.deliveries.claim(request)).claims


async def end(store: Store, owner: Owner, claims: list[Claim]) -> set[int]:
    after = settle(0, Delivered(), POLICIES["webhook"], 1_700_000_000_000, 0.0)
    return await store.deliveries.settle(owner, [Settlement(one, after, outcome="delivered") for one in claims])

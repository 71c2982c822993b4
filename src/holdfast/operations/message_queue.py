"""One direct address used as a plain queue: claim a message, settle it, count and requeue dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from holdfast.domain.address import KINDS, queue_address
from holdfast.domain.delivery import Claim, Outcome, crash_loop, settlement_of
from holdfast.domain.errors import Conflict, KeeperHeld, NotFound
from holdfast.domain.event import Event, iso_time
from holdfast.domain.json_value import JsonObject
from holdfast.domain.retry import POLICIES
from holdfast.domain.text import short_repr
from holdfast.ports import SystemChance, SystemClock
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.open import keep_closed, open_store
from holdfast.store.roles.deliveries import ClaimRequest, Served
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.page import PAGE_MAX
from holdfast.store.roles.store import Feature, Store

POLICY = POLICIES["receipt"]
SERVE_EVERY_MS = 60_000


def max_attempts_of(event: Event) -> int | None:
    """The limit that `enqueue` stored with a message; the policy's own if an event without one was sent there."""
    given = event.properties.get("max_attempts")
    return given if isinstance(given, int) and not isinstance(given, bool) and given > 0 else POLICY.attempts


class _Held(NamedTuple):
    claim: Claim
    started_at_ms: int


class MessageQueue:
    """A claimant with an owner id of its own, beside the engines of other processes.

    The caller does the work of an engine's worker: it claims one message, processes it and passes the outcome to
    `settle`. The lease is not renewed.
    """

    def __init__(self, url: str, store: Store, owner: Owner, lease_ms: int) -> None:
        self._url, self._store, self._owner, self._lease_ms = url, store, owner, lease_ms
        self._clock, self._chance = SystemClock(), SystemChance()
        self._router = Router(store.routing, Registry(store.contracts, POLICIES, readers=store.readers))
        self._held: dict[str, _Held] = {}
        self._served_ms: dict[str, int] = {}

    @classmethod
    async def open(cls, url: str, lease_ms: int) -> MessageQueue:
        store = open_store(url, driver="sqlite3", own=False)
        return cls(url, store, await store.owners.register(), lease_ms)

    async def claim(self, queue: str) -> Claim | None:
        """The next message that is due. Messages in a crash loop become dead letters and are skipped."""
        address = queue_address(queue)
        await self._route()
        await self._serve(address)
        while True:
            claimed = await self._store.deliveries.claim(self._request(address))
            if not claimed.claims:
                return None
            (claim,) = claimed.claims
            self._held[claim.event.id] = _Held(claim, self._clock.now_ms())
            if (dead := crash_loop(claim)) is None:
                return claim
            await self.settle(claim.event.id, dead)

    async def settle(self, id: str, outcome: Outcome) -> None:
        """Settle a claimed message. `Conflict` if its lease has expired."""
        held = self._held.pop(id, None)
        if held is None:
            raise NotFound(f"message {short_repr(id)} is not claimed by this outbox; claim it first")
        policy = replace(POLICY, attempts=max_attempts_of(held.claim.event))
        settlement = settlement_of(
            held.claim, outcome, policy, self._clock.now_ms(), self._chance.fraction(), held.started_at_ms
        )
        if await self._store.deliveries.settle(self._owner, [settlement]):
            await self._register_again()
            raise Conflict(f"the lease of message {id} has expired, and another process may hold it; nothing changed")

    async def stats(self, queue: str) -> dict[str, int]:
        await self._route()
        pending, in_flight = await self._store.operator.count_ready(queue_address(queue))
        return {"pending": pending, "in_flight": in_flight, "dlq": await self.dead_count(queue)}

    async def dead_count(self, queue: str) -> int:
        return sum((await self._store.operator.count_dead(DeliveryFilter(address=queue_address(queue)))).values())

    async def dead(self, queue: str, limit: int) -> list[JsonObject]:
        dead_letters = DeliveryFilter(state="dead", address=queue_address(queue))
        page = await self._store.operator.deliveries(dead_letters, None, limit)
        return [await self._letter(queue, row) for row in page.items]

    async def reprocess(self, queue: str, ids: Sequence[str]) -> int:
        delivery_ids: list[int] = []
        for id in ids:
            of_event = DeliveryFilter("dead", address=queue_address(queue), event=id)
            delivery_ids += [row.id async for row in self._rows(of_event)]
        operator = self._store.operator
        return len(await operator.reprocess(self._owner, delivery_ids, frozenset({"dead"}), "outbox backend"))

    async def reclaim(self) -> int:
        return await self._store.deliveries.reclaim()

    async def close(self) -> None:
        await self._store.deliveries.release([held.claim for held in self._held.values()])
        await self._store.owners.retire(self._owner)
        await self._store.close()

    async def _register_again(self) -> None:
        """Get a new owner id: a process that becomes the keeper of a SQLite file ends all other owners and leases."""
        await self._store.owners.retire(self._owner)
        self._owner = await self._store.owners.register()
        self._held.clear()

    async def _route(self) -> None:
        """Route enqueued messages so that they can be claimed. On SQLite the keeper does this, if there is one."""
        if not await self._store.routing.backlog():
            return
        if Feature.ONE_KEEPER not in self._store.features:
            await self._route_all()
            return
        try:
            with keep_closed(self._url, "an outbox backend, briefly"):
                await self._route_all()
                await self._store.maintenance.checkpoint()
        except KeeperHeld:
            pass

    async def _route_all(self) -> None:
        while await self._router.tick() is not None:
            pass

    async def _serve(self, address: str) -> None:
        now_ms = self._clock.boot_ms()
        if now_ms - self._served_ms.get(address, -SERVE_EVERY_MS) >= SERVE_EVERY_MS:
            await self._store.deliveries.record_served([address])
            self._served_ms[address] = now_ms

    def _request(self, address: str) -> ClaimRequest:
        return ClaimRequest(
            owner=self._owner.id,
            served=Served(frozenset(), frozenset({address})),
            limit=1,
            lease_ms=dict.fromkeys(KINDS, self._lease_ms),
            capacity={},
            capacity_default=dict.fromkeys(KINDS, 1),
        )

    async def _rows(self, filter: DeliveryFilter) -> AsyncIterator[DeliveryRow]:
        """All matching rows, read in pages."""
        after: str | None = None
        while True:
            page = await self._store.operator.deliveries(filter, after, PAGE_MAX)
            for row in page.items:
                yield row
            if (after := page.next) is None:
                return

    async def _letter(self, queue: str, row: DeliveryRow) -> JsonObject:
        event = await self._store.events.get(row.event_id)
        return {
            "id": row.event_id,
            "queue_name": queue,
            "payload": None if event is None else event.payload,
            "attempt_count": row.attempts,
            "last_error": row.last_error,
            "updated_at": iso_time(row.settled_at_ms or row.created_at_ms),
        }

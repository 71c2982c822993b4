"""One direct address worked as a bare queue: claim a message, end it, count and repair its dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from holdfast.domain.address import KINDS, queue_address
from holdfast.domain.delivery import STARTS_MAX, Claim, Dead, Outcome, Settlement, settle
from holdfast.domain.errors import Conflict, KeeperHeld, NotFound
from holdfast.domain.event import iso_time
from holdfast.domain.json_value import JsonObject
from holdfast.domain.retry import POLICIES
from holdfast.domain.states import Reason
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


class MessageQueue:
    """An owner of its own beside whoever else works on the store. Every end carries the lease's token."""

    def __init__(self, url: str, store: Store, owner: Owner, lease_ms: int) -> None:
        self._url, self._store, self._owner, self._lease_ms = url, store, owner, lease_ms
        self._clock, self._chance = SystemClock(), SystemChance()
        self._router = Router(store.routing, Registry(store.contracts, POLICIES))
        self._held: dict[str, tuple[Claim, int]] = {}
        self._served_ms: dict[str, int] = {}

    @classmethod
    async def open(cls, url: str, lease_ms: int) -> MessageQueue:
        store = open_store(url, driver="sqlite3", own=False)
        return cls(url, store, await store.owners.enlist(), lease_ms)

    async def claim(self, queue: str) -> Claim | None:
        """The next message that is due. One that has killed five processes is buried on the way."""
        address = queue_address(queue)
        await self._route()
        await self._serve(address)
        while True:
            claimed = await self._store.deliveries.claim(self._request(address))
            if not claimed.claims:
                return None
            (claim,) = claimed.claims
            self._held[claim.event.id] = claim, self._clock.now_ms()
            if claim.starts <= STARTS_MAX:
                return claim
            await self.end(claim.event.id, Dead(Reason.CRASH_LOOP, f"started {STARTS_MAX} times and never ended"))

    async def end(self, id: str, outcome: Outcome) -> None:
        held = self._held.pop(id, None)
        if held is None:
            raise NotFound(f"message {short_repr(id)} is not in your hands; claim it first")
        claim, started_ms = held
        now_ms = self._clock.now_ms()
        policy = replace(POLICY, attempts=claim.event.properties.get("max_attempts", POLICY.attempts))
        after = settle(claim.delivery.attempts, outcome, policy, now_ms, self._chance.fraction())
        word = type(outcome).__name__.lower()
        done = Settlement(claim, after, detail=None, started_at_ms=started_ms, outcome=word)
        if await self._store.deliveries.settle(self._owner, [done]):
            await self._enlist_again()
            raise Conflict(f"the lease of message {id} had ended, and somebody else may have it; nothing was changed")

    async def stats(self, queue: str) -> dict[str, int]:
        await self._route()
        pending, in_flight = await self._store.operator.count_ready(queue_address(queue))
        return {"pending": pending, "in_flight": in_flight, "dlq": await self.dead_count(queue)}

    async def dead_count(self, queue: str) -> int:
        return sum((await self._store.operator.count_dead(DeliveryFilter(address=queue_address(queue)))).values())

    async def dead(self, queue: str, limit: int) -> list[JsonObject]:
        wanted = DeliveryFilter(state="dead", address=queue_address(queue))
        page = await self._store.operator.deliveries(wanted, None, limit)
        return [await self._letter(queue, row) for row in page.items]

    async def reprocess(self, queue: str, ids: Sequence[str]) -> int:
        chosen: list[int] = []
        for id in ids:
            wanted = DeliveryFilter("dead", address=queue_address(queue), event=id)
            chosen += [row.id async for row in self._rows(wanted)]
        operator = self._store.operator
        return len(await operator.reprocess(self._owner, chosen, frozenset({"dead"}), "outbox backend"))

    async def reclaim(self) -> int:
        return await self._store.deliveries.reclaim()

    async def close(self) -> None:
        await self._store.deliveries.release([claim for claim, _ in self._held.values()])
        await self._store.owners.retire(self._owner)
        await self._store.close()

    async def _enlist_again(self) -> None:
        """Whoever becomes the keeper of a file ends all others there, and what they hold is given to somebody else."""
        await self._store.owners.retire(self._owner)
        self._owner = await self._store.owners.enlist()
        self._held.clear()

    async def _route(self) -> None:
        """See that what was enqueued can be claimed: on SQLite the keeper's work, and ours where there is none."""
        if not await self._store.routing.backlog():
            return
        if Feature.ONE_KEEPER not in self._store.features:
            await self._route_all()
            return
        try:
            with keep_closed(self._url, "an outbox backend, for a moment"):
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

    async def _rows(self, wanted: DeliveryFilter) -> AsyncIterator[DeliveryRow]:
        """Page by page: a queue may be long."""
        after: str | None = None
        while True:
            page = await self._store.operator.deliveries(wanted, after, PAGE_MAX)
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

"""The queue on PostgreSQL: claim, renew, settle, release, reclaim. Every end is fenced by the lease's token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from holdfast.domain.delivery import Claim, Settlement
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.receipt import Head
from holdfast.domain.states import Reason, State
from holdfast.ports import Chance
from holdfast.store.postgres.claims import Order, claim
from holdfast.store.postgres.clock import ServerClock
from holdfast.store.postgres.liveness import Liveness
from holdfast.store.postgres.owner_check import BACK_S, OwnerCheck
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.settling import Settled, end_unheld, is_simple, settle, settle_simply
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.deliveries import BATCH_MAX, Claimed, ClaimRequest
from holdfast.store.roles.owners import Owner


class PostgresDeliveries:
    def __init__(
        self,
        pool: Pool,
        liveness: Liveness,
        clock: ServerClock,
        lease_clock: Callable[[], int | None],
        chance: Chance,
        changed: Callable[[str], None],
    ) -> None:
        self._pool, self._liveness, self._clock, self._chance, self._changed = pool, liveness, clock, chance, changed
        self._lease_now = lease_clock
        self._owner_check = OwnerCheck(liveness.is_here, lambda: liveness.troubled)
        self._served_since_ms = 0
        self._unsure: set[int] = set()
        """Tokens of claims that may have taken something, and never said."""
        self._heads: dict[str, Head] = {}
        """Where each chain of ours ended when we last wrote to it."""

    async def claim(self, request: ClaimRequest) -> Claimed:
        """Repeatable: the token is the same at every try, so that a claim whose answer was lost is found again."""
        self._liveness.lease_keeper.lease_ms = min(request.lease_ms.values())
        await self._disown()
        order = Order(request, self._clock.now_ms(), self._lease_now(), self._chance.token())
        try:
            claimed = await claim(self._pool, order)
        except BaseException:
            self._unsure.add(order.token)
            raise
        if claimed.next_due_ms is None:
            return claimed
        return replace(claimed, next_due_ms=claimed.next_due_ms - self._clock.shift_ms())

    async def _disown(self) -> None:
        """Give back what a claim took whose answer never came: nobody knows of it, so nobody has begun it."""
        if tokens := list(self._unsure):
            await self._pool.run(
                lambda session: session.run(sql.lease_disown, tokens), durable=False, repeatable=True
            )  # fmt: skip
            self._unsure.difference_update(tokens)

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> set[int]:
        ids, tokens = _fences(claims)
        lease_now = self._lease_now()
        held = await self._pool.run(
            lambda session: session.rows(sql.lease_renew, lease_now, lease_ms, ids, tokens),
            durable=False,
            repeatable=True,
        )
        return set(ids) - {row[0] for row in held}

    async def settle(self, owner: Owner, settlements: Sequence[Settlement]) -> set[int]:
        """Not repeated over a lost connection: the second try would find its own tokens gone, and call them lost."""
        now_ms, shift_ms = self._clock.now_ms(), self._clock.shift_ms()
        settlements = [_shifted(one, shift_ms) if shift_ms else one for one in settlements]
        settled = await self._settle_simply(owner.chain, settlements, now_ms)
        if settled is None:
            settled = await self._settle(owner.chain, settlements, now_ms)
        if settled.head is not None:
            self._heads[owner.chain] = settled.head
        if settled.moved:  # a claim that ran beside this transaction did not see the new heads
            self._changed("deliveries")
        return settled.lost

    async def _settle_simply(self, chain: str, settlements: Sequence[Settlement], now_ms: int) -> Settled | None:
        head = self._heads.pop(chain, None)  # known again when we know how it ended
        if head is None or not settlements or not is_simple(settlements):
            return None
        return await self._pool.once(lambda session: settle_simply(session, chain, head, settlements, now_ms))

    async def _settle(self, chain: str, settlements: Sequence[Settlement], now_ms: int) -> Settled:
        effects = [
            [(event, event.id or make_id("evt", now_ms, self._chance.entropy(ENTROPY_BYTES))) for event in s.events]
            for s in settlements
        ]
        ring = not self._liveness.working
        settled = await self._pool.run(lambda session: settle(session, chain, settlements, effects, now_ms, ring))
        if any(effects):
            self._changed("events")
        return settled

    async def release(self, claims: Sequence[Claim]) -> None:
        ids, tokens = _fences(claims)
        await self._pool.run(
            lambda session: session.run(sql.lease_release, ids, tokens), durable=False, repeatable=True
        )
        self._changed("deliveries")

    async def uncount_starts(self, claims: Sequence[Claim]) -> None:
        ids, tokens = _fences(claims)
        await self._pool.run(lambda session: session.run(sql.lease_uncount, ids, tokens), durable=False)

    async def reclaim(self, holding: Sequence[int] = ()) -> int:
        """An owner that may have lost only its connection keeps its leases until they end."""
        lease_now, held = self._lease_now(), list(holding)
        gone = self._owner_check.gone(await self._pool.rows(sql.owners_missing))
        count = await self._pool.run(
            lambda session: session.run(sql.lease_reclaim, lease_now, gone, held), durable=False, repeatable=True
        )
        if self._owner_check.doubtful:  # check again once the doubt is resolved
            asyncio.get_running_loop().call_later(BACK_S, self._changed, "owners")
        if count:
            self._changed("deliveries")
        return count

    async def others_hold_leases(self, owner: Owner) -> bool:
        return True  # any number of processes work on this store, and one may have begun a moment ago

    async def resume_handed(self) -> int:
        """Put what was handed over, and whose time to look has come, where it can be claimed again."""
        now_ms = self._clock.now_ms()
        count = await self._pool.run(
            lambda session: session.run(sql.handed_due, now_ms, BATCH_MAX), durable=False, repeatable=True
        )
        if count:
            self._changed("deliveries")
        return count

    async def record_served(self, addresses: Sequence[str]) -> None:
        """Say which single addresses this process serves, so that nobody buries what waits for them."""
        now_ms = self._clock.now_ms()
        self._served_since_ms = self._served_since_ms or now_ms
        await self._pool.run(
            lambda session: session.run(sql.queue_serve, now_ms, list(addresses)), durable=False, repeatable=True
        )

    async def drop_removed(self, owner: Owner) -> int:
        """End what waits for contracts that were removed, a bounded number at a time."""
        now_ms = self._clock.now_ms()

        async def work(session: PooledConnection) -> int:
            for (queue,) in await session.rows(sql.removed_queues):
                events = dict(await session.rows(sql.removed_pending, queue, BATCH_MAX))
                end = (State.PENDING, State.DROPPED, Reason.CONTRACT_REMOVED, now_ms, "contract removed")
                if done := await end_unheld(session, owner.chain, events, *end):
                    return len(done)
            return 0

        return await self._pool.run(work)

    async def dead_letter_unserved(self, owner: Owner, grace_ms: int, since_ms: int) -> int:
        """End as dead(no_handler) what has waited a grace time for a handler that nobody serves."""
        now_ms = self._clock.now_ms()
        cutoff = now_ms - grace_ms
        if max(since_ms + self._clock.shift_ms(), self._served_since_ms) > cutoff:
            return 0

        async def work(session: PooledConnection) -> int:
            events = dict(await session.rows(sql.unserved_pending, cutoff, BATCH_MAX))
            end = (State.PENDING, State.DEAD, Reason.NO_HANDLER, now_ms, "nobody serves this handler")
            return len(await end_unheld(session, owner.chain, events, *end))

        return await self._pool.run(work)


def _shifted(one: Settlement, shift_ms: int) -> Settlement:
    """With its times by the database's clock: the engine knows only the clock of its own machine."""
    due, handed = one.transition.due_at_ms, one.transition.handed_until_ms
    if due is None and handed is None:
        return one
    after = one.transition._replace(
        due_at_ms=None if due is None else due + shift_ms,
        handed_until_ms=None if handed is None else handed + shift_ms,
    )
    return one._replace(transition=after)


def _fences(claims: Sequence[Claim]) -> tuple[list[int], list[int]]:
    return [one.delivery.id for one in claims], [one.token for one in claims]

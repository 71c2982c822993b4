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
from holdfast.store.postgres.claims import claim
from holdfast.store.postgres.clock import ServerClock
from holdfast.store.postgres.liveness import Liveness
from holdfast.store.postgres.owner_check import RECONNECT_S, OwnerCheck
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.ready_queue import PostgresReadyQueue
from holdfast.store.postgres.settling import Settled, end_unheld, is_simple, settle, settle_simply
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.deliveries import BATCH_MAX, Claimed, ClaimRequest
from holdfast.store.roles.lease import leases_of
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.ready_queue import LeaseOrder


class PostgresDeliveries:
    def __init__(
        self,
        pool: Pool,
        ready: PostgresReadyQueue,
        liveness: Liveness,
        clock: ServerClock,
        lease_clock: Callable[[], int | None],
        chance: Chance,
        changed: Callable[[str], None],
    ) -> None:
        self._pool, self._liveness, self._clock, self._chance, self._changed = pool, liveness, clock, chance, changed
        self._ready, self._lease_now = ready, lease_clock
        self._owner_check = OwnerCheck(liveness.is_local, lambda: liveness.recently_disconnected)
        self._served_since_ms = 0
        self.uncertain: set[int] = set()
        """Tokens of claims and routed batches that may have leased something, and whose response was lost."""
        self._heads: dict[str, Head] = {}
        """The head of each chain of this process, as of its last write."""

    async def claim(self, request: ClaimRequest) -> Claimed:
        """Repeatable: each try has the same token, so that a claim whose response was lost is found again."""
        self._liveness.lease_keeper.lease_ms = min(request.lease_ms.values())
        await self._disown()
        order = LeaseOrder(request.owner, self._chance.token(), self._lease_now(), self._clock.now_ms())
        try:
            claimed = await claim(self._pool, self._ready, request, order)
        except BaseException:
            self.uncertain.add(order.token)
            raise
        if claimed.next_due_ms is None:
            return claimed
        return replace(claimed, next_due_ms=claimed.next_due_ms - self._clock.shift_ms())

    async def _disown(self) -> None:
        """Release leases of claims whose response was lost: they are unknown here, so none of them was started."""
        if tokens := list(self.uncertain):
            await self._pool.run(
                lambda connection: self._ready.disown(connection, tokens), durable=False, repeatable=True
            )  # fmt: skip
            self.uncertain.difference_update(tokens)

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> set[int]:
        leases, lease_now = leases_of(claims), self._lease_now()
        return await self._pool.run(
            lambda connection: self._ready.renew(connection, leases, lease_now, lease_ms),
            durable=False,
            repeatable=True,
        )

    async def settle(self, owner: Owner, settlements: Sequence[Settlement]) -> set[int]:
        """Not repeated after a lost connection: a second try would find its tokens gone and report them as lost."""
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
        return await self._pool.single_once(
            lambda connection: settle_simply(connection, self._ready, chain, head, settlements, now_ms)
        )

    async def _settle(self, chain: str, settlements: Sequence[Settlement], now_ms: int) -> Settled:
        effects = [
            [(event, event.id or make_id("evt", now_ms, self._chance.entropy(ENTROPY_BYTES))) for event in s.events]
            for s in settlements
        ]
        ring = not self._liveness.working
        settled = await self._pool.run(
            lambda connection: settle(connection, self._ready, chain, settlements, effects, now_ms, ring)
        )
        if any(effects):
            self._changed("events")
        return settled

    async def release(self, claims: Sequence[Claim]) -> None:
        leases = leases_of(claims)
        await self._pool.run(lambda connection: self._ready.release(connection, leases), durable=False, repeatable=True)
        self._changed("deliveries")

    async def uncount_starts(self, claims: Sequence[Claim]) -> None:
        leases = leases_of(claims)
        await self._pool.run(lambda connection: self._ready.uncount_starts(connection, leases), durable=False)

    async def reclaim(self, holding: Sequence[int] = ()) -> int:
        """An owner that may have lost only its connection keeps its leases until they end."""
        lease_now, held = self._lease_now(), list(holding)
        gone = self._owner_check.gone(await self._ready.missing_holders(self._pool))
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> int:
            if gone:
                await connection.run(sql.owners_end_gone, now_ms, gone)
            return await self._ready.reclaim(connection, lease_now, gone, held)

        count = await self._pool.run(work, durable=False, repeatable=True)
        if self._owner_check.undecided:  # check again once the doubt is resolved
            asyncio.get_running_loop().call_later(RECONNECT_S, self._changed, "owners")
        if count:
            self._changed("deliveries")
        return count

    async def others_hold_leases(self, owner: Owner) -> bool:
        return True  # any number of processes work on this store, and one may have begun a moment ago

    async def resume_handed(self) -> int:
        """Put handed-over deliveries whose confirmation is overdue into the ready queue again."""
        now_ms = self._clock.now_ms()
        count = await self._pool.run(
            lambda connection: self._ready.put_handed(connection, now_ms, BATCH_MAX), durable=False, repeatable=True
        )
        if count:
            self._changed("deliveries")
        return count

    async def make_head_due(self, lane: str) -> bool:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> bool:
            heads = [row[0] for row in await connection.rows(sql.first_in_lane, lane)]
            if not heads:
                return False
            handed = await connection.run(sql.handed_make_due, now_ms, heads[0])
            hastened = await self._ready.make_due(connection, heads, now_ms)
            return bool(handed and await self._ready.put_handed(connection, now_ms, BATCH_MAX)) or bool(hastened)

        found = await self._pool.run(work, durable=False, repeatable=True)
        if found:
            self._changed("deliveries")
        return found

    async def record_served(self, addresses: Sequence[str]) -> None:
        """Record which single addresses this process serves, so that their deliveries are not dead-lettered."""
        now_ms = self._clock.now_ms()
        self._served_since_ms = self._served_since_ms or now_ms
        await self._pool.run(
            lambda connection: connection.run(sql.queue_serve, now_ms, list(addresses)), durable=False, repeatable=True
        )

    async def drop_removed(self, owner: Owner) -> int:
        """Drop pending deliveries of removed contracts, a bounded number at a time."""
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> int:
            for queue in await self._ready.removed_queues(connection):
                events = await self._ready.removed_pending(connection, queue, BATCH_MAX)
                end = (State.PENDING, State.DROPPED, Reason.CONTRACT_REMOVED, now_ms, "contract removed")
                if done := await end_unheld(connection, self._ready, owner.chain, events, *end):
                    return len(done)
            return 0

        return await self._pool.run(work)

    async def dead_letter_unserved(self, owner: Owner, grace_ms: int, since_ms: int) -> int:
        """End as dead(no_handler) deliveries to a handler that no process has served for the grace time."""
        now_ms = self._clock.now_ms()
        cutoff = now_ms - grace_ms
        if max(since_ms + self._clock.shift_ms(), self._served_since_ms) > cutoff:
            return 0

        async def work(connection: PooledConnection) -> int:
            events = await self._ready.unserved_pending(connection, cutoff, BATCH_MAX)
            end = (State.PENDING, State.DEAD, Reason.NO_HANDLER, now_ms, "no process serves this handler")
            return len(await end_unheld(connection, self._ready, owner.chain, events, *end))

        return await self._pool.run(work)


def _shifted(one: Settlement, shift_ms: int) -> Settlement:
    """A settlement with its times on the database's clock: the engine has only the clock of its own machine."""
    due, handed = one.transition.due_at_ms, one.transition.handed_until_ms
    if one.transition.state is State.DELIVERED and one.detail is None:  # no time of it is stored
        return one
    after = one.transition._replace(
        due_at_ms=None if due is None else due + shift_ms,
        handed_until_ms=None if handed is None else handed + shift_ms,
    )
    return one._replace(transition=after, started_at_ms=one.started_at_ms + shift_ms)

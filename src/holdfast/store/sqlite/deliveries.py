"""The queue on SQLite: claim, renew, settle, release, reclaim. Every end is fenced by the lease's token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from holdfast.domain.delivery import Claim, Settlement
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.receipt import Leaf
from holdfast.domain.states import Reason, State
from holdfast.ports import Chance, Clock
from holdfast.store.process_id import is_running, parse_process_id
from holdfast.store.roles.deliveries import BATCH_MAX, Claimed, ClaimRequest
from holdfast.store.roles.lease import leases_of
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.ready_queue import LeaseOrder, LeaseShare
from holdfast.store.rows import to_claim
from holdfast.store.sqlite.connection import Connection, Row
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.ready_queue import SqliteReadyQueue
from holdfast.store.sqlite.receipts import write_link
from holdfast.store.sqlite.settling import advance_lane, settle
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer

QUEUES_MAX = 1000
_NO_END = 1 << 62


class SqliteDeliveries:
    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        ready: SqliteReadyQueue,
        clock: Clock,
        chance: Chance,
        changed: Callable[[str], None],
    ) -> None:
        self._writer, self._reader, self._clock, self._chance, self._changed = writer, reader, clock, chance, changed
        self._ready = ready

    async def claim(self, request: ClaimRequest) -> Claimed:
        order = LeaseOrder(request.owner, self._chance.token(), self._clock.boot_ms(), self._clock.now_ms())
        return await self._writer.run(lambda connection: _claim(connection, self._ready, request, order), durable=False)

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> set[int]:
        leases, boot_ms = leases_of(claims), self._clock.boot_ms()
        return await self._writer.run(
            lambda connection: self._ready.renew(connection, leases, boot_ms, lease_ms), durable=False
        )

    async def settle(self, owner: Owner, settlements: Sequence[Settlement]) -> set[int]:
        now_ms = self._clock.now_ms()
        effects = [
            [(event, event.id or make_id("evt", now_ms, self._chance.entropy(ENTROPY_BYTES))) for event in s.events]
            if s.effects
            else ()
            for s in settlements
        ]
        lost = await self._writer.run(
            lambda connection: settle(connection, self._ready, owner.chain, settlements, effects, now_ms)
        )
        if any(effects):
            self._changed("events")
        return lost

    async def release(self, claims: Sequence[Claim]) -> None:
        leases = leases_of(claims)
        await self._writer.run(lambda connection: self._ready.release(connection, leases), durable=False)
        self._changed("deliveries")

    async def uncount_starts(self, claims: Sequence[Claim]) -> None:
        leases = leases_of(claims)
        await self._writer.run(lambda connection: self._ready.uncount_starts(connection, leases), durable=False)

    async def reclaim(self, holding: Sequence[int] = ()) -> int:
        boot_ms = self._clock.boot_ms()

        def work(connection: Connection) -> int:
            holders = self._ready.holders(connection)
            gone = [owner for owner, pid, mark in holders if is_running(pid, parse_process_id(mark)) is False]
            return self._ready.reclaim(connection, boot_ms, gone, holding)

        count = await self._writer.run(work, durable=False)
        if count:
            self._changed("deliveries")
        return count

    async def others_hold_leases(self, owner: Owner) -> bool:
        return await self._reader.run(lambda connection: self._ready.others_hold(connection, owner.id))

    async def resume_handed(self) -> int:
        """Put handed-over deliveries whose confirmation is overdue into the ready queue again."""
        now_ms = self._clock.now_ms()
        count = await self._writer.run(lambda c: self._ready.put_handed(c, now_ms, BATCH_MAX), durable=False)
        if count:
            self._changed("deliveries")
        return count

    async def make_head_due(self, lane: str) -> bool:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> bool:
            heads = [row[0] for row in connection.rows(sql.first_in_lane, (lane,))]
            if not heads:
                return False
            handed = connection.run(sql.handed_make_due, (now_ms, heads[0]))
            hastened = self._ready.make_due(connection, heads, now_ms)
            return bool(handed and self._ready.put_handed(connection, now_ms, BATCH_MAX)) or bool(hastened)

        found = await self._writer.run(work, durable=False)
        if found:
            self._changed("deliveries")
        return found

    async def record_served(self, addresses: Sequence[str]) -> None:
        """Record which single addresses this process serves, so that their deliveries are not dead-lettered."""
        now_ms = self._clock.now_ms()
        rows = [(now_ms, address) for address in addresses]
        await self._writer.run(lambda connection: connection.many(sql.queue_serve, rows), durable=False)

    async def drop_removed(self, owner: Owner) -> int:
        """Drop pending deliveries of removed contracts, a bounded number at a time."""
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> int:
            for queue in self._ready.removed_queues(connection):
                rows = self._ready.removed_pending(connection, queue, BATCH_MAX)
                if rows:
                    end_pending(
                        connection,
                        self._ready,
                        owner,
                        rows,
                        State.DROPPED,
                        Reason.CONTRACT_REMOVED,
                        now_ms,
                        "contract removed",
                    )
                    return len(rows)
            return 0

        return await self._writer.run(work, heavy=True)

    async def dead_letter_unserved(self, owner: Owner, grace_ms: int, since_ms: int) -> int:
        """End as dead(no_handler) deliveries to a handler that no process has served for the grace time."""
        now_ms = self._clock.now_ms()
        cutoff = now_ms - grace_ms
        if since_ms > cutoff:
            return 0

        def work(connection: Connection) -> int:
            rows = self._ready.unserved_pending(connection, cutoff, BATCH_MAX)
            end = (State.DEAD, Reason.NO_HANDLER, now_ms, "no process serves this handler")
            end_pending(connection, self._ready, owner, rows, *end)
            return len(rows)

        return await self._writer.run(work, heavy=True)


def end_pending(
    connection: Connection,
    ready: SqliteReadyQueue,
    owner: Owner,
    rows: Iterable[Row],
    state: State,
    reason: Reason,
    now_ms: int,
    actor: str,
    survivor: int | None = None,
) -> None:
    """End deliveries without a settlement: (id, generation, attempts, event id) each."""
    leaves: list[Leaf] = []
    for id, generation, attempts, event_id in rows:
        ready.remove(connection, [id])
        connection.run(sql.delivery_end, (state, reason, attempts, now_ms, None, survivor, id))
        advance_lane(connection, ready, id, now_ms)
        leaves.append((id, generation, event_id, state, reason, attempts))
    write_link(connection, owner.chain, now_ms, actor, leaves)


def _claim(connection: Connection, ready: SqliteReadyQueue, request: ClaimRequest, order: LeaseOrder) -> Claimed:
    ready.remove_paused(connection)
    queues, next_due = _queues(connection, ready, request, order.due_ms)
    if not queues:
        return Claimed([], next_due, 0)
    capacity = {id: request.capacity.get(id, request.capacity_default[kind]) for id, _, _, kind, _ in queues}
    left, last = request.limit, 0

    def count(id: int, leased: int) -> None:
        nonlocal left, last
        left, capacity[id], last = left - leased, capacity[id] - leased, id

    if request.suspects and left > 0:
        suspects = ready.suspect_queues(connection, order.due_ms)
        for id, _, _, kind, _ in queues:
            if id in suspects and capacity[id] > 0:
                count(id, ready.lease_suspect(connection, order, id, request.lease_ms[kind]))
                break
    fair = max(1, left // len(queues))
    for most in (fair, left):  # a fair share for each first, then whatever is left
        for id, _, _, kind, _ in queues:
            if left > 0 and capacity[id] > 0:
                share = LeaseShare(id, min(capacity[id], most), request.lease_ms[kind])
                count(id, ready.lease(connection, order, [share], left))
    addresses = {id: (address, contract or None) for id, contract, address, _, _ in queues}
    claims = [to_claim(row, order.token, addresses) for row in ready.leased(connection, order.token)]
    return Claimed(claims, next_due, last if len(queues) > 1 else 0)


def _queues(
    connection: Connection, ready: SqliteReadyQueue, request: ClaimRequest, now_ms: int
) -> tuple[list[Row], int | None]:
    """The served queues with work that is due, and when the next of the other served queues is due."""
    due: list[Row] = []
    next_due: int | None = None
    for row in _walk(connection, ready, request.after_queue):
        id, _, address, kind, due_at = row
        if kind not in request.served.kinds and address not in request.served.addresses:
            continue
        if due_at is None or request.capacity.get(id, 1) <= 0 or address in request.served.blocked:
            continue
        if due_at <= now_ms:
            due.append(row)
            if len(due) == QUEUES_MAX:
                break
        elif next_due is None or due_at < next_due:
            next_due = due_at
    return due, next_due


def _walk(connection: Connection, ready: SqliteReadyQueue, after: int) -> Iterator[Row]:
    """Every queue with unleased work once, page by page: those after the one served last, then the others."""
    for first, last in ((after, _NO_END), (0, after)):
        at, more = first, first < last
        while more:
            page = ready.queues(connection, at, QUEUES_MAX)
            yield from (row for row in page if row[0] <= last)
            more = len(page) == QUEUES_MAX and page[-1][0] < last
            at = page[-1][0] if page else last

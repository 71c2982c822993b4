"""The queue on SQLite: claim, renew, settle, release, reclaim. Every end is fenced by the lease's token."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from holdfast.domain.delivery import Claim, Settlement
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.receipt import Leaf
from holdfast.domain.states import Reason, State
from holdfast.ports import Chance, Clock
from holdfast.store.process_id import is_running, parse_process_id
from holdfast.store.roles.deliveries import BATCH_MAX, Claimed, ClaimRequest
from holdfast.store.roles.owners import Owner
from holdfast.store.rows import to_claim
from holdfast.store.sqlite.connection import Connection, Row
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.receipts import write_link
from holdfast.store.sqlite.settling import advance_lane, settle
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer

QUEUES_MAX = 1000
_NO_END = 1 << 62


class SqliteDeliveries:
    def __init__(
        self, writer: Writer, reader: Reader, clock: Clock, chance: Chance, changed: Callable[[str], None]
    ) -> None:
        self._writer, self._reader, self._clock, self._chance, self._changed = writer, reader, clock, chance, changed

    async def claim(self, request: ClaimRequest) -> Claimed:
        now_ms, boot_ms, token = self._clock.now_ms(), self._clock.boot_ms(), self._chance.token()
        return await self._writer.run(
            lambda connection: _claim(connection, request, now_ms, boot_ms, token), durable=False
        )

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> set[int]:
        until = self._clock.boot_ms() + lease_ms

        def work(connection: Connection) -> set[int]:
            return {
                claim.delivery.id
                for claim in claims
                if not connection.run(sql.lease_renew, (until, claim.delivery.id, claim.token))
            }

        return await self._writer.run(work, durable=False)

    async def settle(self, owner: Owner, settlements: Sequence[Settlement]) -> set[int]:
        now_ms = self._clock.now_ms()
        effects = [
            [(event, event.id or make_id("evt", now_ms, self._chance.entropy(ENTROPY_BYTES))) for event in s.events]
            if s.effects
            else ()
            for s in settlements
        ]
        lost = await self._writer.run(lambda connection: settle(connection, owner.chain, settlements, effects, now_ms))
        if any(effects):
            self._changed("events")
        return lost

    async def release(self, claims: Sequence[Claim]) -> None:
        rows = [(claim.delivery.id, claim.token) for claim in claims]
        await self._writer.run(lambda connection: connection.many(sql.lease_release, rows), durable=False)
        self._changed("deliveries")

    async def uncount_starts(self, claims: Sequence[Claim]) -> None:
        rows = [(claim.delivery.id, claim.token) for claim in claims]
        await self._writer.run(lambda connection: connection.many(sql.lease_uncount, rows), durable=False)

    async def reclaim(self, holding: Sequence[int] = ()) -> int:
        boot_ms, boot_id, held = self._clock.boot_ms(), self._clock.boot_id, json.dumps(list(holding))

        def work(connection: Connection) -> int:
            count = connection.run(sql.lease_reclaim, (boot_ms, boot_id, held))
            for owner, pid, mark in connection.rows(sql.lease_holders):
                if is_running(pid, parse_process_id(mark)) is False:
                    count += connection.run(sql.lease_reclaim_of, (owner,))
            return count

        count = await self._writer.run(work, durable=False)
        if count:
            self._changed("deliveries")
        return count

    async def others_hold_leases(self, owner: Owner) -> bool:
        found = await self._reader.run(lambda connection: connection.rows(sql.lease_others, (owner.id,)))
        return bool(found[0][0])

    async def resume_handed(self) -> int:
        """Put what was handed over, and whose time to look has come, where it can be claimed again."""
        now_ms = self._clock.now_ms()
        count = await self._writer.run(lambda c: c.run(sql.handed_due, (now_ms, BATCH_MAX)), durable=False)
        if count:
            self._changed("deliveries")
        return count

    async def record_served(self, addresses: Sequence[str]) -> None:
        """Say which single addresses this process serves, so that nobody buries what waits for them."""
        now_ms = self._clock.now_ms()
        rows = [(now_ms, address) for address in addresses]
        await self._writer.run(lambda connection: connection.many(sql.queue_serve, rows), durable=False)

    async def drop_removed(self, owner: Owner) -> int:
        """End what waits for contracts that were removed, a bounded number at a time."""
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> int:
            for (queue,) in connection.rows(sql.removed_queues):
                rows = connection.rows(sql.removed_pending, (queue, BATCH_MAX))
                if rows:
                    end_pending(
                        connection,
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
        """End as dead(no_handler) what has waited a grace time for a handler that nobody serves."""
        now_ms = self._clock.now_ms()
        cutoff = now_ms - grace_ms
        if since_ms > cutoff:
            return 0

        def work(connection: Connection) -> int:
            rows = connection.rows(sql.unserved_pending, (cutoff, BATCH_MAX))
            end_pending(connection, owner, rows, State.DEAD, Reason.NO_HANDLER, now_ms, "nobody serves this handler")
            return len(rows)

        return await self._writer.run(work, heavy=True)


def end_pending(
    connection: Connection,
    owner: Owner,
    rows: Iterable[Row],
    state: State,
    reason: Reason,
    now_ms: int,
    actor: str,
    survivor: int | None = None,
) -> None:
    """End deliveries that no one is carrying: (id, generation, attempts, event id) each."""
    leaves: list[Leaf] = []
    for id, generation, attempts, event_id in rows:
        connection.run(sql.ready_remove, (id,))
        connection.run(sql.delivery_end, (state, reason, attempts, now_ms, None, survivor, id))
        advance_lane(connection, id, now_ms)
        leaves.append((id, generation, event_id, state, reason, attempts))
    write_link(connection, owner.chain, now_ms, actor, leaves)


def _claim(connection: Connection, request: ClaimRequest, now_ms: int, boot_ms: int, token: int) -> Claimed:
    connection.run(sql.paused_unready)
    queues, next_due = _queues(connection, request, now_ms)
    if not queues:
        return Claimed([], next_due, 0)
    until = {kind: boot_ms + lease for kind, lease in request.lease_ms.items()}
    capacity = {id: request.capacity.get(id, request.capacity_default[kind]) for id, _, _, kind, _ in queues}
    left, last = request.limit, 0

    def lease(statement: str, id: int, kind: str, *limit: int) -> None:
        nonlocal left, last
        got = connection.run(statement, (request.owner, token, until[kind], id, now_ms, *limit))
        left, capacity[id], last = left - got, capacity[id] - got, id

    if request.suspects and left > 0:
        suspicious = {row[0] for row in connection.rows(sql.suspect_queues, (now_ms,))}
        for id, _, _, kind, _ in queues:
            if id in suspicious and capacity[id] > 0:
                lease(sql.suspect_lease, id, kind)
                break
    share = max(1, left // len(queues))
    for most in (share, left):  # a fair share for each first, then whatever is left
        for id, _, _, kind, _ in queues:
            if left > 0 and capacity[id] > 0:
                lease(sql.ready_lease, id, kind, min(left, capacity[id], most))
    addresses = {id: (address, contract or None) for id, contract, address, _, _ in queues}
    claims = [to_claim(row, token, addresses) for row in connection.rows(sql.ready_leased, (token,))]
    return Claimed(claims, next_due, last if len(queues) > 1 else 0)


def _queues(connection: Connection, request: ClaimRequest, now_ms: int) -> tuple[list[Row], int | None]:
    """Queues with work that is due and that we serve, and when the next of the others is due."""
    due: list[Row] = []
    next_due: int | None = None
    for row in _walk(connection, request.after_queue):
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


def _walk(connection: Connection, after: int) -> Iterator[Row]:
    """Every queue with unleased work once, page by page: those after the one served last, then the others."""
    for first, last in ((after, _NO_END), (0, after)):
        at, more = first, first < last
        while more:
            page = connection.rows(sql.ready_queues, (at, QUEUES_MAX))
            yield from (row for row in page if row[0] <= last)
            more = len(page) == QUEUES_MAX and page[-1][0] < last
            at = page[-1][0] if page else last

"""The ready queue on SQLite. All statements that use its table are in `sql/ready_queue.sql` and run here.

Statements elsewhere: `delivery_columns`, `owner_forget` and `owners_working`, which only read the table, and the repair
of due times in `clock_steps.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from holdfast.ports import Clock
from holdfast.store.roles.lease import Lease
from holdfast.store.roles.ready_queue import (
    LeaseOrder,
    LeaseShare,
    QueueDepth,
    ReadyCounts,
    ReadyQueue,
    ReadyRow,
)
from holdfast.store.sqlite.connection import Connection, Row
from holdfast.store.sqlite.inserts import insert
from holdfast.store.sqlite.statements import sql


class SqliteReadyQueue:
    """A table in the store's file. Leases count milliseconds since boot, so that setting the wall clock ends none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def put(self, connection: Connection, rows: Sequence[ReadyRow]) -> None:
        insert(connection, sql.ready_add, rows)

    def put_heads(self, connection: Connection, lanes: Sequence[int], due_at_ms: int) -> None:
        for lane in lanes:
            connection.run(sql.lane_next, (lane, due_at_ms))

    def put_handed(self, connection: Connection, now_ms: int, limit: int) -> int:
        return connection.run(sql.handed_due, (now_ms, limit))

    def queues(self, connection: Connection, after: int, limit: int) -> list[Row]:
        """A page of queues with unleased rows, by id: (id, contract, address, kind, next due or None while paused)."""
        return connection.rows(sql.ready_queues, (after, limit))

    def lease(self, connection: Connection, order: LeaseOrder, shares: Sequence[LeaseShare], limit: int) -> int:
        """Returns how many were leased. `leased` reads them, once for all queues of a claim."""
        count = 0
        for queue, most, lease_ms in shares:
            values = (*self._terms(order, lease_ms), queue, order.due_ms, min(most, limit - count))
            count += connection.run(sql.ready_lease, values)
        return count

    def leased(self, connection: Connection, token: int) -> list[Row]:
        """All that a token holds, with its event."""
        return connection.rows(sql.ready_leased, (token,))

    def suspect_queues(self, connection: Connection, now_ms: int) -> set[int]:
        return {row[0] for row in connection.rows(sql.suspect_queues, (now_ms,))}

    def lease_suspect(self, connection: Connection, order: LeaseOrder, queue: int, lease_ms: int) -> int:
        return connection.run(sql.suspect_lease, (*self._terms(order, lease_ms), queue, order.due_ms))

    def renew(self, connection: Connection, leases: Sequence[Lease], now_ms: int | None, lease_ms: int) -> set[int]:
        until = self._now(now_ms) + lease_ms
        return {id for id, token in leases if not connection.run(sql.lease_renew, (until, id, token))}

    def end(self, connection: Connection, leases: Sequence[Lease]) -> set[Lease]:
        return {lease for lease in leases if connection.run(sql.ready_end, (lease.token, json.dumps([lease.delivery])))}

    def end_batch(self, connection: Connection, token: int, deliveries: Sequence[int]) -> bool:
        """End all leases of one token by one statement. False: one of them was lost, and nothing was changed."""
        values = (token, json.dumps(deliveries))
        if len(deliveries) == 1:
            return connection.run(sql.ready_end, values) == 1
        connection.run("SAVEPOINT ending")
        complete = connection.run(sql.ready_end, values) == len(deliveries)
        if not complete:
            connection.run("ROLLBACK TO ending")
        connection.run("RELEASE ending")
        return complete

    def retry_later(
        self, connection: Connection, leases: Sequence[Lease], due_at_ms: Sequence[int | None]
    ) -> set[Lease]:
        return {
            lease
            for lease, due in zip(leases, due_at_ms, strict=True)
            if connection.run(sql.ready_again, (due, lease.delivery, lease.token))
        }

    def release(self, connection: Connection, leases: Sequence[Lease]) -> None:
        connection.many(sql.lease_release, leases)

    def uncount_starts(self, connection: Connection, leases: Sequence[Lease]) -> None:
        connection.many(sql.lease_uncount, leases)

    def remove(self, connection: Connection, deliveries: Sequence[int]) -> None:
        for id in deliveries:
            connection.run(sql.ready_remove, (id,))

    def remove_lane(self, connection: Connection, lane: int) -> None:
        connection.run(sql.ready_remove_lane, (lane,))

    def remove_paused(self, connection: Connection) -> None:
        connection.run(sql.ready_remove_paused)

    def make_due(self, connection: Connection, deliveries: Sequence[int], now_ms: int) -> set[int]:
        return {id for id in deliveries if connection.run(sql.ready_make_due, (now_ms, id))}

    def holders(self, connection: Connection) -> list[Row]:
        """The owners that hold leases: (owner, process id, start of the process)."""
        return connection.rows(sql.lease_holders)

    def others_hold(self, connection: Connection, owner: int) -> bool:
        """Whether an owner other than this one holds a lease."""
        return bool(connection.rows(sql.lease_others, (owner,))[0][0])

    def reclaim(
        self, connection: Connection, now_ms: int | None, gone: Sequence[int] = (), holding: Sequence[int] = ()
    ) -> int:
        """Leases of owners that ended, or that started before the last boot, are ended too."""
        held = json.dumps(list(holding))
        count = connection.run(sql.lease_reclaim, (self._now(now_ms), self._clock.boot_id, held))
        return count + sum(connection.run(sql.lease_reclaim_of, (owner,)) for owner in gone)

    def before_in_lane(self, connection: Connection, lane: int, pos: int, limit: int) -> list[Row]:
        """The pending deliveries before a place in a lane, nearest first, and whether each is leased."""
        return connection.rows(sql.burst_behind, (lane, pos, limit))

    def oldest_in_lane(self, connection: Connection, lane: int, limit: int) -> list[Row]:
        """The oldest unleased deliveries of a lane that may be evicted."""
        return connection.rows(sql.burst_oldest, (lane, limit))

    def removed_queues(self, connection: Connection) -> list[int]:
        """Queues of removed contracts that still have unleased rows."""
        return [row[0] for row in connection.rows(sql.removed_queues)]

    def removed_pending(self, connection: Connection, queue: int, limit: int) -> list[Row]:
        """The unleased rows of a queue, and the pending deliveries behind them in their lanes."""
        return connection.rows(sql.removed_pending, (queue, limit))

    def unserved_pending(self, connection: Connection, cutoff_ms: int, limit: int) -> list[Row]:
        """Deliveries that no process has served since the cutoff, and those as old behind them in their lanes."""
        return connection.rows(sql.unserved_pending, (cutoff_ms, limit))

    def counts(self, connection: Connection) -> ReadyCounts:
        return ReadyCounts(*connection.rows(sql.figures_ready)[0])

    def count_behind(self, connection: Connection) -> int:
        return int(connection.rows(sql.figures_behind)[0][0])

    def pending_by_queue(self, connection: Connection, limit: int) -> dict[str, int]:
        return dict(connection.rows(sql.pending_by_queue, (limit,)))

    def count_address(self, connection: Connection, address: str) -> tuple[int, int]:
        ((unleased, leased),) = connection.rows(sql.ready_count, (address,))
        return unleased, leased

    def depth(self, connection: Connection, queue: int) -> QueueDepth:
        return QueueDepth(*connection.rows(sql.ready_depth, (queue,))[0])

    def oldest_created_ms(self, connection: Connection) -> int | None:
        """When the oldest delivery with a row was created; None where there is none."""
        rows = connection.rows(sql.figures_oldest)
        return rows[0][0] if rows else None

    def _terms(self, order: LeaseOrder, lease_ms: int) -> tuple[int, int, int]:
        return order.owner, order.token, self._now(order.lease_now_ms) + lease_ms

    def _now(self, now_ms: int | None) -> int:
        return self._clock.boot_ms() if now_ms is None else now_ms


def _conforms(queue: SqliteReadyQueue) -> ReadyQueue[Connection, int]:
    """Checked by mypy: the class has every verb of the role."""
    return queue

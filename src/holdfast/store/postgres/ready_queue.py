"""The ready queue on PostgreSQL. All statements that use its table are in `sql/ready_queue.sql` and run here.

Statements elsewhere that only read the table: `delivery_columns`, `owner_forget` and `owners_working`. The functions
`lease` and `settle_delivered` of the schema are called by the statements of this file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import NamedTuple, Protocol

from holdfast.domain.receipt import Link
from holdfast.store.postgres.pooled_connection import PooledConnection, Row
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.lease import Lease
from holdfast.store.roles.ready_queue import (
    LeaseOrder,
    LeaseShare,
    QueueDepth,
    ReadyCounts,
    ReadyQueue,
    ReadyRow,
)


class Rows(Protocol):
    """A connection within a transaction, or a pool, with which each statement is a transaction of its own."""

    async def rows(self, text: str, *values: object) -> list[Row]: ...


class NewDeliveries(NamedTuple):
    """Columns of deliveries to insert, in their order. `due_at_ms` None: it gets no ready row yet."""

    events: Sequence[int]
    queues: Sequence[int]
    lanes: Sequence[int | None]
    places: Sequence[int | None]
    due_at_ms: Sequence[int | None]
    created_at_ms: int
    bursts: Sequence[str | None]


class PlainBatch(NamedTuple):
    """A batch of the router without lanes: its events, and the columns of their deliveries.

    `lease_ms`: how long this process may hold a delivery from now on; None: it is only queued.
    """

    version: int
    routed: Sequence[int]
    unmatched: Sequence[int]
    events: Sequence[int]
    queues: Sequence[int | None]
    due_at_ms: Sequence[int]
    created_at_ms: int
    began_streams: Sequence[int]
    lease_ms: Sequence[int | None]
    order: LeaseOrder | None


class Routed(NamedTuple):
    """How many deliveries are new (`total`), and those of them that were leased: (delivery, event, queue)."""

    total: int
    leased: list[tuple[int, int, int]]


class PostgresReadyQueue:
    """A table in the store's schema. Any number of processes lease from it, and skip rows that another one locked."""

    async def put(self, connection: PooledConnection, rows: Sequence[ReadyRow]) -> None:
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
        await connection.run(sql.ready_add, *columns)

    async def put_routed(self, connection: PooledConnection, deliveries: NewDeliveries) -> None:
        """Fused: insert deliveries, and a row for each that has a due time."""
        await connection.run(sql.delivery_add, *deliveries)

    async def put_plain(self, connection: PooledConnection, batch: PlainBatch) -> Routed | None:
        """Fused: route a batch without lanes, and lease what is offered for, by one statement.

        None: the contracts have another version than the batch, and nothing was changed.
        """
        *columns, order = batch
        owner, token, lease_now, _ = order or (None, None, None, None)
        queues = [] if order is None else list(set(batch.queues))
        values = (*columns, owner, token, lease_now, queues)
        ((version, count, ids, events, leased_queues),) = await connection.rows(sql.route_plain, *values)
        if version != batch.version:
            return None
        return Routed(int(count), [] if ids is None else list(zip(ids, events, leased_queues, strict=True)))

    async def put_heads(self, connection: PooledConnection, lanes: Sequence[int], due_at_ms: int) -> None:
        await connection.run(sql.lane_next, lanes, due_at_ms)

    async def put_handed(self, connection: PooledConnection, now_ms: int, limit: int) -> int:
        return await connection.run(sql.handed_due, now_ms, limit)

    async def queues(self, connection: PooledConnection, after: int, limit: int) -> list[Row]:
        """A page of queues with unleased rows, by id.

        Each is (id, contract, address, kind, next due or None while paused, whether a lane is paused or a row is
        suspect, concurrency of the contract where several processes share it, how many processes work).
        """
        return await connection.rows(sql.ready_queues, after, limit)

    async def lease(
        self, connection: Rows, order: LeaseOrder, shares: Sequence[LeaseShare], limit: int, owners: int = 1
    ) -> list[Row]:
        """Fused: lease, and return all that the token holds, with its events.

        That includes rows that an earlier try with this token leased, if its response was lost. `owners`: how many
        processes share a long queue.
        """
        owner, token, lease_now, due_ms = order
        queues, most, lease_ms = [s.queue for s in shares], [s.most for s in shares], [s.lease_ms for s in shares]
        terms = owner, token, lease_now, queues, most, lease_ms, due_ms, limit, owners
        return await connection.rows(sql.ready_lease, *terms)

    async def count_leased(self, connection: PooledConnection, queues: Sequence[int]) -> dict[int, int]:
        """How many rows of each queue are leased, by any process."""
        return dict(await connection.rows(sql.queue_leased, queues))

    async def suspect_queues(self, connection: PooledConnection, now_ms: int) -> set[int]:
        return {row[0] for row in await connection.rows(sql.suspect_queues, now_ms)}

    async def lease_suspect(self, connection: PooledConnection, order: LeaseOrder, queue: int, lease_ms: int) -> int:
        terms = order.owner, order.token, order.lease_now_ms, lease_ms
        return await connection.run(sql.suspect_lease, *terms, queue, order.due_ms)

    async def renew(
        self, connection: PooledConnection, leases: Sequence[Lease], now_ms: int | None, lease_ms: int
    ) -> set[int]:
        ids, tokens = _columns(leases)
        held = await connection.rows(sql.lease_renew, now_ms, lease_ms, ids, tokens)
        return set(ids) - {row[0] for row in held}

    async def prolong(self, connection: PooledConnection, owner: int, lease_ms: int) -> int:
        """Extend all leases of one owner, while its event loop is too busy to renew them. Returns how many."""
        return await connection.run(sql.lease_prolong, owner, lease_ms)

    async def end(self, connection: PooledConnection, leases: Sequence[Lease]) -> set[Lease]:
        return {Lease(*row) for row in await connection.rows(sql.ready_end, *_columns(leases))}

    async def settle_delivered(
        self, connection: PooledConnection, leases: Sequence[Lease], attempts: Iterable[int], link: Link
    ) -> bool:
        """Fused: end leases, deliveries and places in lanes, put the next heads, and write the receipt.

        Returns whether there are new heads. Raises with SQLSTATE HF004 where a lease was lost, a delivery has ended or
        the chain has grown; then nothing was changed.
        """
        ids, tokens = _columns(leases)
        receipt = link.at_ms, link.chain, link.seq, link.prev, link.root, link.hash, link.leaves
        return bool(
            await connection.value(sql.settle_delivered, _array(ids), _array(tokens), _array(attempts), *receipt)
        )

    async def retry_later(
        self, connection: PooledConnection, leases: Sequence[Lease], due_at_ms: Sequence[int | None]
    ) -> set[Lease]:
        return {Lease(*row) for row in await connection.rows(sql.ready_again, *_columns(leases), due_at_ms)}

    async def release(self, connection: PooledConnection, leases: Sequence[Lease]) -> None:
        await connection.run(sql.lease_release, *_columns(leases))

    async def uncount_starts(self, connection: PooledConnection, leases: Sequence[Lease]) -> None:
        await connection.run(sql.lease_uncount, *_columns(leases))

    async def disown(self, connection: PooledConnection, tokens: Sequence[int]) -> None:
        """Release all that was leased under these tokens, by claims whose response was lost."""
        await connection.run(sql.lease_disown, tokens)

    async def remove(self, connection: PooledConnection, deliveries: Sequence[int]) -> None:
        await connection.run(sql.ready_remove, deliveries)

    async def remove_lane(self, connection: PooledConnection, lane: int) -> None:
        await connection.run(sql.ready_remove_lane, lane)

    async def remove_paused(self, connection: PooledConnection) -> None:
        await connection.run(sql.ready_remove_paused)

    async def make_due(self, connection: PooledConnection, deliveries: Sequence[int], now_ms: int) -> set[int]:
        return {row[0] for row in await connection.rows(sql.ready_make_due, now_ms, deliveries)}

    async def missing_holders(self, connection: Rows) -> list[Row]:
        """The owners that hold leases or did not end, and show no sign of life: (owner, process id, boot id)."""
        return await connection.rows(sql.owners_missing)

    async def reclaim(
        self, connection: PooledConnection, now_ms: int | None, gone: Sequence[int] = (), holding: Sequence[int] = ()
    ) -> int:
        """An owner in `gone` whose lock is held again keeps its leases until they expire."""
        return await connection.run(sql.lease_reclaim, now_ms, gone, holding)

    async def without_lease(self, connection: PooledConnection, deliveries: Sequence[int]) -> set[int]:
        """Those that have no row, or a row that is not leased, which this locks. It never waits for a lock."""
        present = [row[0] for row in await connection.rows(sql.burst_ready, deliveries)]
        free = {row[0] for row in await connection.rows(sql.burst_free, present)} if present else set()
        return set(deliveries).difference(present) | free

    async def removed_queues(self, connection: PooledConnection) -> list[int]:
        """Queues of removed contracts that still have unleased rows."""
        return [row[0] for row in await connection.rows(sql.removed_queues)]

    async def removed_pending(self, connection: PooledConnection, queue: int, limit: int) -> dict[int, str]:
        """The unleased rows of a queue, and the pending deliveries behind them in their lanes, with their event ids."""
        return dict(await connection.rows(sql.removed_pending, queue, limit))

    async def unserved_pending(self, connection: PooledConnection, cutoff_ms: int, limit: int) -> dict[int, str]:
        """Deliveries that no process has served since the cutoff, and those as old behind them in their lanes."""
        return dict(await connection.rows(sql.unserved_pending, cutoff_ms, limit))

    async def counts(self, connection: PooledConnection) -> ReadyCounts:
        return ReadyCounts(*(await connection.rows(sql.figures_ready))[0])

    async def count_behind(self, connection: PooledConnection) -> int:
        return int(await connection.value(sql.figures_behind))

    async def pending_by_queue(self, connection: Rows, limit: int) -> dict[str, int]:
        return dict(await connection.rows(sql.pending_by_queue, limit))

    async def count_address(self, connection: Rows, address: str) -> tuple[int, int]:
        ((unleased, leased),) = await connection.rows(sql.ready_count, address)
        return unleased, leased

    async def depth(self, connection: Rows, queue: int) -> QueueDepth:
        ((rows, leased, oldest),) = await connection.rows(sql.ready_depth, queue)
        return QueueDepth(rows, leased, oldest)

    async def oldest_created_ms(self, connection: PooledConnection) -> int | None:
        """When the oldest delivery with a row was created; None where there is none."""
        found: int | None = await connection.value(sql.figures_oldest)
        return found


def _columns(leases: Sequence[Lease]) -> tuple[list[int], list[int]]:
    return [lease.delivery for lease in leases], [lease.token for lease in leases]


def _array(numbers: Iterable[int]) -> str:
    return f"{{{','.join(map(str, numbers))}}}"


def _conforms(queue: PostgresReadyQueue) -> ReadyQueue[PooledConnection, Awaitable[list[Row]]]:
    """Checked by mypy: the class has every verb of the role."""
    return queue

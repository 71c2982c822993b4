"""Settling on PostgreSQL: a batch of ends in one transaction, a few statements however many there are.

Most batches contain only delivered deliveries whose leases are all still held: the fast path ends them in one round
trip. It passes the next link of the receipt chain, made from the head as last written. If a lease was lost or the chain
has grown, nothing is changed, and the general path settles each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import asyncpg

from holdfast.domain.delivery import Settlement, Transition, clean_error
from holdfast.domain.errors import BadInput, Conflict, HoldfastError
from holdfast.domain.receipt import Head, Leaf
from holdfast.domain.states import Reason, State
from holdfast.store.postgres.errors import FAST_PATH_REFUSED, FAULTS, translate
from holdfast.store.postgres.events import append
from holdfast.store.postgres.group_append import Prepared
from holdfast.store.postgres.lanes import leave_lanes
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.ready_queue import PostgresReadyQueue
from holdfast.store.postgres.receipts import next_link, write_link
from holdfast.store.postgres.sessions import change_session
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.lease import Lease
from holdfast.store.rows import detail_text

ATTEMPTS_KEPT = 50


class Settled(NamedTuple):
    """The ids whose lease was lost, whether there are new heads to claim, and the chain's head if it grew."""

    lost: set[int]
    moved: bool
    head: Head | None


def is_simple(settlements: Sequence[Settlement]) -> bool:
    """Whether the fast path is enough: all were delivered, without details and effects."""
    delivered = State.DELIVERED
    for _, transition, effects, detail, _, _ in settlements:
        if transition.state is not delivered or detail is not None or effects:
            return False
    return True


async def settle_simply(
    connection: PooledConnection,
    ready: PostgresReadyQueue,
    chain: str,
    head: Head,
    settlements: Sequence[Settlement],
    now_ms: int,
) -> Settled | None:
    """End them all in one statement, a transaction by itself. None: nothing was done, take the general path."""
    new = next_link(chain, head, now_ms, "engine", [_leaf(one) for one in settlements])
    attempts = [one.transition.attempts for one in settlements]
    try:
        moved = await ready.settle_delivered(connection, [_lease(one) for one in settlements], attempts, new)
    except asyncpg.PostgresError as error:
        if error.sqlstate != FAST_PATH_REFUSED:
            raise
        return None
    return Settled(set(), moved, Head(new.seq, new.hash))


async def settle(
    connection: PooledConnection,
    ready: PostgresReadyQueue,
    chain: str,
    settlements: Sequence[Settlement],
    effects: Sequence[Prepared],
    now_ms: int,
    ring: bool,
) -> Settled:
    """Apply the settlements whose lease is still held."""
    held = await _take_out(connection, ready, settlements)
    applied: list[Settlement] = []
    for settlement, events in zip(settlements, effects, strict=True):
        if _lease(settlement) in held:
            some = bool(settlement.effects)
            applied.append(await _with_effects(connection, settlement, events, now_ms, ring) if some else settlement)
    await _wait(connection, [one for one in applied if one.transition.state is State.PENDING])
    moved = await _end(connection, ready, [one for one in applied if one.transition.state is not State.PENDING], now_ms)
    await _record(connection, applied, now_ms)
    head = await write_link(connection, chain, now_ms, "engine", [_leaf(one) for one in applied])
    lost = {one.claim.delivery.id for one in settlements if _lease(one) not in held}
    return Settled(lost, moved, head)


async def _take_out(
    connection: PooledConnection, ready: PostgresReadyQueue, settlements: Sequence[Settlement]
) -> set[Lease]:
    """End the leases that are still held, for good or for another try. Returns those leases."""
    again = [one for one in settlements if one.transition.due_at_ms is not None]
    over = [one for one in settlements if one.transition.due_at_ms is None]
    held: set[Lease] = set()
    if again:
        due = [one.transition.due_at_ms for one in again]
        held |= await ready.retry_later(connection, [_lease(one) for one in again], due)
    if over:
        held |= await ready.end(connection, [_lease(one) for one in over])
    return held


def _lease(settlement: Settlement) -> Lease:
    return Lease(settlement.claim.delivery.id, settlement.claim.token)


async def _with_effects(
    connection: PooledConnection, settlement: Settlement, events: Prepared, now_ms: int, ring: bool
) -> Settlement:
    """Append effects. Effects that can never be appended end their own delivery as dead, and affect no other."""
    await connection.raw.execute("SAVEPOINT effects")
    try:
        if events:
            await append(connection, events, now_ms, ring)
        for change in settlement.changes:
            await change_session(connection, change, now_ms)
    except (HoldfastError, *FAULTS) as error:
        problem = translate(error)
        if not isinstance(problem, BadInput | Conflict):
            raise
        await connection.raw.execute("ROLLBACK TO SAVEPOINT effects")
        error_text = clean_error(f"its effects cannot be appended: {problem.message}")
        after = Transition(State.DEAD, settlement.transition.attempts, Reason.REJECTED, error=error_text)
        settlement = settlement._replace(transition=after, effects=(), outcome="dead")
    await connection.raw.execute("RELEASE SAVEPOINT effects")
    return settlement


async def _wait(connection: PooledConnection, settlements: Sequence[Settlement]) -> None:
    if settlements:
        after = [one.transition for one in settlements]
        await connection.run(
            sql.delivery_wait,
            [one.claim.delivery.id for one in settlements],
            [one.attempts for one in after],
            [one.error for one in after],
            [one.handed_until_ms for one in after],
        )


async def _end(
    connection: PooledConnection, ready: PostgresReadyQueue, settlements: Sequence[Settlement], now_ms: int
) -> bool:
    if settlements:
        after = [one.transition for one in settlements]
        ended = await connection.rows(
            sql.delivery_end,
            [one.claim.delivery.id for one in settlements],
            [one.state for one in after],
            [one.reason for one in after],
            [one.attempts for one in after],
            [one.error for one in after],
            now_ms,
            [one.survivor for one in after],
            State.PENDING,
        )
        return await leave_lanes(connection, ready, [row[1] for row in ended], now_ms)
    return False


async def _record(connection: PooledConnection, settlements: Sequence[Settlement], now_ms: int) -> None:
    """Record attempts that failed or have details."""
    recorded = [one for one in settlements if one.transition.state is not State.DELIVERED or one.detail is not None]
    if not recorded:
        return
    ids = [one.claim.delivery.id for one in recorded]
    await connection.run(
        sql.attempt_add,
        ids,
        [one.claim.delivery.generation for one in recorded],
        [one.transition.attempts for one in recorded],
        [one.started_at_ms for one in recorded],
        now_ms,
        [one.outcome for one in recorded],
        [one.transition.error for one in recorded],
        [detail_text(one.detail) for one in recorded],
    )
    if many := [one.claim.delivery.id for one in recorded if one.transition.attempts > ATTEMPTS_KEPT]:
        await connection.run(sql.attempt_trim, many, ATTEMPTS_KEPT)


def _leaf(settlement: Settlement) -> Leaf:
    claim, after = settlement.claim, settlement.transition
    return claim.delivery.id, claim.delivery.generation, claim.event.id, after.state, after.reason, after.attempts


async def end_unheld(
    connection: PooledConnection, ready: PostgresReadyQueue, chain: str, events: Mapping[int, str], before: State,
    after: State, reason: Reason, now_ms: int, actor: str, survivor: int | None = None,
) -> list[int]:  # fmt: skip
    """End deliveries without a settlement, given with their event ids: those still in the state `before`.

    Their ready rows are removed first, in the order of every settle: either a holder loses its lease here, or it has
    settled already and its end stands. They are removed again at the end: another transaction, which did not see these
    ends, may have put one of them back while this one waited for locks.
    """
    ids, count = list(events), len(events)
    if not ids:
        return []
    if before is State.PENDING:
        await ready.remove(connection, ids)
    none: list[None] = [None] * count
    rows = await connection.rows(
        sql.delivery_end, ids, [after] * count, [reason] * count, none, none, now_ms, [survivor] * count, before
    )
    if before is State.PENDING:
        await leave_lanes(connection, ready, [row[1] for row in rows], now_ms)
        await ready.remove(connection, [row[0] for row in rows])
    ended = {id: (generation, attempts) for id, _, generation, attempts in rows}
    done = [id for id in ids if id in ended]
    leaves: list[Leaf] = [(id, ended[id][0], events[id], after, reason, ended[id][1]) for id in done]
    await write_link(connection, chain, now_ms, actor, leaves)
    return done

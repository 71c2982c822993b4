"""Settling on SQLite: a batch of ends in one transaction.

Most of them were delivered and have no effects: those are ended together, by a few statements however many there are.
Each step of a statement may give the interpreter's lock to another thread, so fewer steps mean fewer waits for it. Ends
of other kinds, and batches with a lost lease, are settled one by one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from holdfast.domain.delivery import Settlement, Transition, clean_error
from holdfast.domain.errors import BadInput, Conflict
from holdfast.domain.event import NewEvent
from holdfast.domain.receipt import Leaf
from holdfast.domain.states import Reason, State
from holdfast.store.roles.lease import Lease
from holdfast.store.rows import detail_text
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.events import append
from holdfast.store.sqlite.ready_queue import SqliteReadyQueue
from holdfast.store.sqlite.receipts import write_link
from holdfast.store.sqlite.sessions import change_session
from holdfast.store.sqlite.statements import sql

ATTEMPTS_KEPT = 50

Prepared = Sequence[tuple[NewEvent, str]]


def settle(
    connection: Connection,
    ready: SqliteReadyQueue,
    chain: str,
    settlements: Sequence[Settlement],
    effects: Sequence[Prepared],
    now_ms: int,
) -> set[int]:
    """Apply the settlements whose lease is still held, with one receipt link. Returns the ids whose lease was lost."""
    ended = _end_batches(connection, ready, [one for one in settlements if _is_plain(one)], now_ms)
    lost: set[int] = set()
    leaves: list[Leaf] = []
    for settlement, events in zip(settlements, effects, strict=True):
        applied: Settlement | None = settlement
        if settlement.claim.token not in ended or not _is_plain(settlement):
            applied = _settle_with_effects(connection, ready, settlement, events, now_ms)
        if applied is None:
            lost.add(settlement.claim.delivery.id)
        else:
            leaves.append(_leaf(applied))
    write_link(connection, chain, now_ms, "engine", leaves)
    return lost


def _is_plain(settlement: Settlement) -> bool:
    """Whether it was delivered, without effects."""
    return settlement.transition.state is State.DELIVERED and not settlement.effects


def _end_batches(
    connection: Connection, ready: SqliteReadyQueue, settlements: Iterable[Settlement], now_ms: int
) -> set[int]:
    """End leases by token, then deliveries by number of attempts.

    Returns the tokens of which all leases were held, and ended.
    """
    by_token: defaultdict[int, list[Settlement]] = defaultdict(list)
    for one in settlements:
        by_token[one.claim.token].append(one)
    by_attempts: defaultdict[int, list[int]] = defaultdict(list)
    recorded: list[Settlement] = []
    ended: set[int] = set()
    for token, those in by_token.items():
        if not ready.end_batch(connection, token, [one.claim.delivery.id for one in those]):
            continue
        ended.add(token)
        for one in those:
            by_attempts[one.transition.attempts].append(one.claim.delivery.id)
        recorded += [one for one in those if one.detail is not None]
    for attempts, ids in by_attempts.items():
        named = json.dumps(ids)
        connection.run(sql.delivery_delivered, (attempts, now_ms, named))
        for lane in json.loads(connection.rows(sql.delivery_lanes, (named,))[0][0]):
            leave_lane(connection, ready, lane, now_ms)
    _record_attempts(connection, recorded, now_ms)
    return ended


def advance_lane(connection: Connection, ready: SqliteReadyQueue, delivery: int, now_ms: int) -> None:
    """After an end: make the next delivery of its lane the head, unless the lane is paused."""
    lane = connection.rows(sql.delivery_lane, (delivery,))[0][0]
    if lane is not None:
        leave_lane(connection, ready, lane, now_ms)


def leave_lane(connection: Connection, ready: SqliteReadyQueue, lane: int, now_ms: int) -> None:
    """Count one open delivery less, and make the next one the head, unless the lane is paused."""
    open_count, paused = connection.rows(sql.lane_leave, (lane,))[0]
    if open_count and not paused:
        ready.put_heads(connection, [lane], now_ms)


def _settle_with_effects(
    connection: Connection, ready: SqliteReadyQueue, settlement: Settlement, events: Prepared, now_ms: int
) -> Settlement | None:
    """Settle with all effects or not at all.

    Effects that can never be appended end their own delivery as dead, and affect no other.
    """
    if not settlement.effects:
        return settlement if _settle(connection, ready, settlement, now_ms) else None
    connection.run("SAVEPOINT effects")
    try:
        held = _settle(connection, ready, settlement, now_ms)
        if held:
            append(connection, events, now_ms)
            for change in settlement.changes:
                change_session(connection, change, now_ms)
        return settlement if held else None
    except (BadInput, Conflict) as error:
        connection.run("ROLLBACK TO effects")
        error_text = clean_error(f"its effects cannot be appended: {error.message}")
        after = Transition(State.DEAD, settlement.transition.attempts, Reason.REJECTED, error=error_text)
        settlement = settlement._replace(transition=after, effects=(), outcome="dead")
        return settlement if _settle(connection, ready, settlement, now_ms) else None
    finally:
        connection.run("RELEASE effects")


def _settle(connection: Connection, ready: SqliteReadyQueue, settlement: Settlement, now_ms: int) -> bool:
    """Apply one transition if the lease is still held."""
    claim, after = settlement.claim, settlement.transition
    id = claim.delivery.id
    if after.state is State.PENDING and after.handed_until_ms is None:
        if not ready.retry_later(connection, [Lease(id, claim.token)], [after.due_at_ms]):
            return False
        connection.run(sql.delivery_wait, (after.attempts, after.error, None, id))
    else:
        if not ready.end(connection, [Lease(id, claim.token)]):
            return False
        if after.state is State.PENDING:
            connection.run(sql.delivery_wait, (after.attempts, after.error, after.handed_until_ms, id))
        else:
            connection.run(
                sql.delivery_end,
                (after.state, after.reason, after.attempts, now_ms, after.error, after.survivor, id),
            )
            advance_lane(connection, ready, id, now_ms)
    if after.state is not State.DELIVERED or settlement.detail is not None:
        _record_attempts(connection, [settlement], now_ms)
    return True


def _record_attempts(connection: Connection, settlements: Sequence[Settlement], now_ms: int) -> None:
    if not settlements:
        return
    rows = [
        (
            claim.delivery.id, claim.delivery.generation, after.attempts, started_at_ms, now_ms, outcome, after.error,
            detail_text(detail),
        )
        for claim, after, _, detail, started_at_ms, outcome in settlements
    ]  # fmt: skip
    connection.run(sql.attempt_add, (json.dumps(rows),))
    for claim, after, *_ in settlements:
        if after.attempts > ATTEMPTS_KEPT:
            connection.run(sql.attempt_trim, (claim.delivery.id, ATTEMPTS_KEPT))


def _leaf(settlement: Settlement) -> Leaf:
    claim, after = settlement.claim, settlement.transition
    return (
        claim.delivery.id,
        claim.delivery.generation,
        claim.event.id,
        after.state,
        after.reason,
        after.attempts,
    )

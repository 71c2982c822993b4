"""Settling on SQLite: a batch of ends in one transaction.

Most of them arrived and leave nothing behind: those are ended together, by a few statements however many there are.
Between two steps of a statement the interpreter may be given to another thread: fewer steps are fewer waits to get it
back. Whatever ended in another way, or is no longer ours, is looked at one by one.
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
from holdfast.store.sqlite.receipts import write_link
from holdfast.store.sqlite.sessions import change_session
from holdfast.store.sqlite.statements import sql

ATTEMPTS_KEPT = 50

Prepared = Sequence[tuple[NewEvent, str]]


def settle(
    connection: Connection, chain: str, settlements: Sequence[Settlement], effects: Sequence[Prepared], now_ms: int
) -> set[int]:
    """Apply what is still ours, with one link for all of it. The ids whose lease was lost."""
    arrived = _arrive(connection, [one for one in settlements if _is_plain(one)], now_ms)
    lost: set[int] = set()
    leaves: list[Leaf] = []
    for settlement, events in zip(settlements, effects, strict=True):
        lease = Lease(settlement.claim.delivery.id, settlement.claim.token)
        applied: Settlement | None = settlement
        if lease not in arrived or not _is_plain(settlement):
            applied = _settle_with_effects(connection, settlement, events, now_ms)
        if applied is None:
            lost.add(settlement.claim.delivery.id)
        else:
            leaves.append(_leaf(applied))
    write_link(connection, chain, now_ms, "engine", leaves)
    return lost


def _is_plain(settlement: Settlement) -> bool:
    """Whether it arrived, and leaves nothing behind."""
    return settlement.transition.state is State.DELIVERED and not settlement.effects


def _arrive(connection: Connection, settlements: Iterable[Settlement], now_ms: int) -> set[Lease]:
    """End together what is still ours: all of one token, then all with as many attempts. Their leases."""
    by_token: defaultdict[int, list[Settlement]] = defaultdict(list)
    for one in settlements:
        by_token[one.claim.token].append(one)
    by_attempts: defaultdict[int, list[int]] = defaultdict(list)
    told: list[Settlement] = []
    arrived: set[Lease] = set()
    for token, those in by_token.items():
        if not _end_all(connection, token, [one.claim.delivery.id for one in those]):
            continue
        for one in those:
            by_attempts[one.transition.attempts].append(one.claim.delivery.id)
            arrived.add(Lease(one.claim.delivery.id, token))
        told += [one for one in those if one.detail is not None]
    for attempts, ids in by_attempts.items():
        named = json.dumps(ids)
        connection.run(sql.delivery_arrive, (attempts, now_ms, named))
        for lane in json.loads(connection.rows(sql.delivery_lanes, (named,))[0][0]):
            leave_lane(connection, lane, now_ms)
    _record_attempts(connection, told, now_ms)
    return arrived


def _end_all(connection: Connection, token: int, ids: Sequence[int]) -> bool:
    """Whether each of them was held under this token; if one was not, nothing is done."""
    if len(ids) == 1:
        return connection.run(sql.ready_end, (token, json.dumps(ids))) == 1
    connection.run("SAVEPOINT arriving")
    whole = connection.run(sql.ready_end, (token, json.dumps(ids))) == len(ids)
    if not whole:
        connection.run("ROLLBACK TO arriving")
    connection.run("RELEASE arriving")
    return whole


def advance_lane(connection: Connection, delivery: int, now_ms: int) -> None:
    """After an end: the next in its lane becomes the head, if the lane may go on."""
    lane = connection.rows(sql.delivery_lane, (delivery,))[0][0]
    if lane is not None:
        leave_lane(connection, lane, now_ms)


def leave_lane(connection: Connection, lane: int, now_ms: int) -> None:
    """One fewer is open, and the next becomes the head."""
    open_count, paused = connection.rows(sql.lane_leave, (lane,))[0]
    if open_count and not paused:
        connection.run(sql.lane_next, (lane, now_ms))


def _settle_with_effects(
    connection: Connection, settlement: Settlement, events: Prepared, now_ms: int
) -> Settlement | None:
    """Both or neither. Effects that can never be appended end their own delivery, and disturb no other."""
    if not settlement.effects:
        return settlement if _settle(connection, settlement, now_ms) else None
    connection.run("SAVEPOINT effects")
    try:
        held = _settle(connection, settlement, now_ms)
        if held:
            append(connection, events, now_ms)
            for change in settlement.changes:
                change_session(connection, change, now_ms)
        return settlement if held else None
    except (BadInput, Conflict) as error:
        connection.run("ROLLBACK TO effects")
        told = clean_error(f"its effects cannot be appended: {error.message}")
        after = Transition(State.DEAD, settlement.transition.attempts, Reason.REJECTED, error=told)
        settlement = settlement._replace(transition=after, effects=(), outcome="dead")
        return settlement if _settle(connection, settlement, now_ms) else None
    finally:
        connection.run("RELEASE effects")


def _settle(connection: Connection, settlement: Settlement, now_ms: int) -> bool:
    """Apply one transition if the lease is still ours."""
    claim, after = settlement.claim, settlement.transition
    id = claim.delivery.id
    if after.state is State.PENDING and after.handed_until_ms is None:
        if not connection.run(sql.ready_again, (after.due_at_ms, id, claim.token)):
            return False
        connection.run(sql.delivery_wait, (after.attempts, after.error, None, id))
    else:
        if not connection.run(sql.ready_end, (claim.token, json.dumps([id]))):
            return False
        if after.state is State.PENDING:
            connection.run(sql.delivery_wait, (after.attempts, after.error, after.handed_until_ms, id))
        else:
            connection.run(
                sql.delivery_end,
                (after.state, after.reason, after.attempts, now_ms, after.error, after.survivor, id),
            )
            advance_lane(connection, id, now_ms)
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

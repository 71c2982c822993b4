"""Lanes on PostgreSQL: joining at the tail, leaving, and the next head. A lane's row is its lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.ready_queue import PostgresReadyQueue
from holdfast.store.postgres.statements import sql


class LanePosition(NamedTuple):
    """A place in a lane; `head`: nothing waits before it, and the lane is not paused."""

    lane: int
    pos: int
    head: bool
    waiting: int


async def join_lanes(connection: PooledConnection, keys: Sequence[str]) -> list[LanePosition]:
    """A position for each key, in order; a key may come several times."""
    counts = Counter(keys)
    if not counts:
        return []
    positions: dict[str, LanePosition] = {}
    for key, lane, tail, waiting, paused in await connection.rows(sql.lane_join, list(counts), list(counts.values())):
        positions[key] = LanePosition(lane, tail - counts[key] + 1, waiting == counts[key] and not paused, waiting)
    given = []
    for key in keys:
        position = positions[key]
        given.append(position)
        positions[key] = position._replace(pos=position.pos + 1, head=False)
    return given


async def leave_lanes(
    connection: PooledConnection, ready: PostgresReadyQueue, lanes: Iterable[int | None], now_ms: int
) -> bool:
    """Make the next of each lane its head, unless the lane is paused. Returns whether there is a new head."""
    counts = Counter(lane for lane in lanes if lane is not None)
    if not counts:
        return False
    left = await connection.rows(sql.lane_leave, list(counts), list(counts.values()))
    going = [lane for lane, waiting, paused in left if waiting and not paused]
    if going:
        await ready.put_heads(connection, going, now_ms)
    return bool(going)

"""Lanes on PostgreSQL: joining at the tail, leaving, and who is the head then. A lane's row is its lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.statements import sql


class Seat(NamedTuple):
    """A place in a lane; `head`: nobody waits before it, and the lane may go on."""

    lane: int
    pos: int
    head: bool
    waiting: int


async def join_lanes(session: PooledConnection, keys: Sequence[str]) -> list[Seat]:
    """A seat for each key, in order; a key may come several times."""
    counts = Counter(keys)
    if not counts:
        return []
    seats: dict[str, Seat] = {}
    for key, lane, tail, waiting, paused in await session.rows(sql.lane_join, list(counts), list(counts.values())):
        seats[key] = Seat(lane, tail - counts[key] + 1, waiting == counts[key] and not paused, waiting)
    given = []
    for key in keys:
        seat = seats[key]
        given.append(seat)
        seats[key] = seat._replace(pos=seat.pos + 1, head=False)
    return given


async def leave_lanes(session: PooledConnection, lanes: Iterable[int | None], now_ms: int) -> bool:
    """After ends: the next of each lane becomes its head, if the lane may go on. Whether there is one."""
    counts = Counter(lane for lane in lanes if lane is not None)
    if not counts:
        return False
    left = await session.rows(sql.lane_leave, list(counts), list(counts.values()))
    going = [lane for lane, waiting, paused in left if waiting and not paused]
    if going:
        await session.run(sql.lane_next, going, now_ms)
    return bool(going)

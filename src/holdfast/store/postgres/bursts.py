"""Bursts on PostgreSQL: in a lane, a newer delivery with the same burst key replaces a pending one.

The router's transaction holds the rows of the lanes it joined, so that no delivery becomes a head meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.domain.lane import COALESCE_LOOKBACK, LANE_MAX
from holdfast.domain.states import Reason, State
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.ready_queue import PostgresReadyQueue
from holdfast.store.postgres.settling import end_unheld
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.deliveries import BATCH_MAX
from holdfast.store.roles.owners import Owner


async def coalesce_and_evict(
    connection: PooledConnection,
    ready: PostgresReadyQueue,
    owner: Owner,
    events: Sequence[int],
    waiting: Mapping[int, int],
    now_ms: int,
) -> Counter[str]:
    """Drop what these events' deliveries replace and, where a lane is full, its oldest deliveries that may be evicted.

    `waiting`: how many stand in each lane that was joined and may be full. Returns how many were dropped, by reason.
    """
    dropped: Counter[str] = Counter()
    for id, lane, pos, burst in await connection.rows(sql.burst_new, list(events)):
        dropped[Reason.COALESCED] += await _coalesce(connection, ready, owner, id, lane, pos, burst, now_ms)
    for lane, count in waiting.items():
        if count > LANE_MAX:
            oldest = dict(await connection.rows(sql.burst_oldest, lane, min(count - LANE_MAX, BATCH_MAX)))
            free = await _unheld(connection, ready, oldest)
            end = (State.PENDING, State.DROPPED, Reason.EVICTED, now_ms, "router")
            dropped[Reason.EVICTED] += len(await end_unheld(connection, ready, owner.chain, free, *end))
    return dropped


async def _coalesce(
    connection: PooledConnection,
    ready: PostgresReadyQueue,
    owner: Owner,
    id: int,
    lane: int,
    pos: int,
    burst: str,
    now_ms: int,
) -> int:
    """Drop the delivery that the new one replaces. Returns how many: one or none."""
    for older, key, event_id in await connection.rows(sql.burst_behind, lane, pos, COALESCE_LOOKBACK):
        if key is None:
            return 0
        if key == burst:
            free = await _unheld(connection, ready, {older: event_id})
            ended = await end_unheld(
                connection, ready, owner.chain, free, State.PENDING, State.DROPPED, Reason.COALESCED, now_ms, "router",
                survivor=id,
            )  # fmt: skip
            return len(ended)
    return 0


async def _unheld(connection: PooledConnection, ready: PostgresReadyQueue, events: Mapping[int, str]) -> dict[int, str]:
    """Those that wait behind a head, or are a head without a lease."""
    free = await ready.without_lease(connection, list(events))
    return {id: event_id for id, event_id in events.items() if id in free}

"""Bursts on PostgreSQL: in a lane, a waiting delivery gives way to a later one that says the same, newer.

The router's transaction holds the rows of the lanes it joined, so that nobody becomes a head meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.domain.lane import COALESCE_LOOKBACK, LANE_MAX
from holdfast.domain.states import Reason, State
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.settling import end_unheld
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.deliveries import BATCH_MAX
from holdfast.store.roles.owners import Owner


async def thin_out(
    session: PooledConnection, owner: Owner, events: Sequence[int], waiting: Mapping[int, int], now_ms: int
) -> None:
    """Drop what these events' deliveries replace and, where a lane is full, the oldest that may go.

    `waiting`: how many stand in each lane that was joined and may be full.
    """
    for id, lane, pos, burst in await session.rows(sql.burst_new, list(events)):
        await _coalesce(session, owner, id, lane, pos, burst, now_ms)
    for lane, count in waiting.items():
        if count > LANE_MAX:
            oldest = dict(await session.rows(sql.burst_oldest, lane, min(count - LANE_MAX, BATCH_MAX)))
            free = await _unheld(session, oldest)
            await end_unheld(session, owner.chain, free, State.PENDING, State.DROPPED, Reason.EVICTED, now_ms, "router")


async def _coalesce(
    session: PooledConnection, owner: Owner, id: int, lane: int, pos: int, burst: str, now_ms: int
) -> None:
    for older, key, event_id in await session.rows(sql.burst_behind, lane, pos, COALESCE_LOOKBACK):
        if key is None:
            return
        if key == burst:
            free = await _unheld(session, {older: event_id})
            await end_unheld(
                session, owner.chain, free, State.PENDING, State.DROPPED, Reason.COALESCED, now_ms, "router",
                survivor=id,
            )  # fmt: skip
            return


async def _unheld(session: PooledConnection, events: Mapping[int, str]) -> dict[int, str]:
    """Those that wait behind a head, or are a head that nobody carries."""
    ready = {row[0] for row in await session.rows(sql.burst_ready, list(events))}
    free = {row[0] for row in await session.rows(sql.burst_free, list(ready))} if ready else set()
    return {id: event_id for id, event_id in events.items() if id not in ready or id in free}

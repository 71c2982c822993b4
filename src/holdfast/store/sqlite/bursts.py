"""Bursts on SQLite: in a lane, a newer delivery with the same burst key replaces a pending one."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from holdfast.domain.lane import COALESCE_LOOKBACK, LANE_MAX
from holdfast.domain.states import Reason, State
from holdfast.store.roles.deliveries import BATCH_MAX
from holdfast.store.roles.owners import Owner
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.deliveries import end_pending
from holdfast.store.sqlite.ready_queue import SqliteReadyQueue


class Joined(NamedTuple):
    """A delivery that has just taken its place in a lane."""

    id: int
    lane: int
    pos: int
    open: int
    burst: str | None


def coalesce_and_evict(
    connection: Connection, ready: SqliteReadyQueue, owner: Owner, joined: Joined, now_ms: int
) -> Counter[str]:
    """Drop what the new delivery replaces and, where the lane is full, its oldest deliveries that may be evicted.

    Returns how many were dropped, by reason.
    """
    if joined.burst is not None:
        for id, burst, leased, generation, attempts, event_id in ready.before_in_lane(
            connection, joined.lane, joined.pos, COALESCE_LOOKBACK
        ):
            if burst is None or leased:
                break
            if burst == joined.burst:
                row = (id, generation, attempts, event_id)
                end = (State.DROPPED, Reason.COALESCED, now_ms, "router")
                end_pending(connection, ready, owner, [row], *end, survivor=joined.id)
                return Counter({Reason.COALESCED.value: 1})
    if joined.open > LANE_MAX:
        rows = ready.oldest_in_lane(connection, joined.lane, min(joined.open - LANE_MAX, BATCH_MAX))
        end_pending(connection, ready, owner, rows, State.DROPPED, Reason.EVICTED, now_ms, "router")
        return Counter({Reason.EVICTED.value: len(rows)})
    return Counter()

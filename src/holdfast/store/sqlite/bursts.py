"""Bursts on SQLite: in a lane, a waiting delivery gives way to a later one that says the same, newer."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.domain.lane import COALESCE_LOOKBACK, LANE_MAX
from holdfast.domain.states import Reason, State
from holdfast.store.roles.deliveries import BATCH_MAX
from holdfast.store.roles.owners import Owner
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.deliveries import end_pending
from holdfast.store.sqlite.statements import sql


class Joined(NamedTuple):
    """A delivery that has just taken its place in a lane."""

    id: int
    lane: int
    pos: int
    open: int
    burst: str | None


def thin_out(connection: Connection, owner: Owner, joined: Joined, now_ms: int) -> None:
    """Drop what the newcomer replaces and, where the lane is full, the oldest that may go."""
    if joined.burst is not None:
        for id, burst, leased, generation, attempts, event_id in connection.rows(
            sql.burst_behind, (joined.lane, joined.pos, COALESCE_LOOKBACK)
        ):
            if burst is None or leased:
                break
            if burst == joined.burst:
                row = (id, generation, attempts, event_id)
                end_pending(
                    connection, owner, [row], State.DROPPED, Reason.COALESCED, now_ms, "router", survivor=joined.id
                )
                return
    if joined.open > LANE_MAX:
        rows = connection.rows(sql.burst_oldest, (joined.lane, min(joined.open - LANE_MAX, BATCH_MAX)))
        end_pending(connection, owner, rows, State.DROPPED, Reason.EVICTED, now_ms, "router")

"""Lanes on SQLite: joining at the tail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.statements import sql


class LanePosition(NamedTuple):
    """A place in a lane. `waiting` counts everything open in the lane up to this place."""

    lane: int
    pos: int
    waiting: int
    paused: bool

    @property
    def is_head(self) -> bool:
        """Whether nothing waits before it, and the lane is not paused."""
        return self.waiting == 1 and not self.paused


def join_lanes(connection: Connection, keys: Sequence[str]) -> list[LanePosition]:
    """A position for each key, in order; a key may come several times."""
    counts = Counter(keys)
    positions: dict[str, LanePosition] = {}
    for key, count in counts.items():
        lane, tail, waiting, paused = connection.rows(sql.lane_join, (key, count))[0]
        positions[key] = LanePosition(lane, tail - count + 1, waiting - count + 1, bool(paused))
    given = []
    for key in keys:
        position = positions[key]
        given.append(position)
        positions[key] = position._replace(pos=position.pos + 1, waiting=position.waiting + 1)
    return given

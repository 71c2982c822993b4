"""The observer: reads the store after every commit, through its own connection, and records the changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from holdfast.proof.kills.evidence import StoreRows
from holdfast.proof.kills.snapshot import read_rows
from holdfast.proof.power_cuts.contents import stray_rows
from holdfast.proof.simulation.ledger import Change, Ledger, Seen
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.store import DRIVERS

_ROWS = """
SELECT d.id, e.id, q.contract, e.seq, d.state, d.generation, d.attempts, d.reason, d.lane, d.pos,
       r.token, r.owner, r.starts
FROM holdfast_deliveries d JOIN holdfast_events e ON e.n = d.event JOIN holdfast_queues q ON q.id = d.queue
LEFT JOIN holdfast_ready r ON r.delivery = d.id"""
_THESE = f"{_ROWS} WHERE d.id IN (SELECT value FROM json_each(?)) ORDER BY d.id"
_WAITING = """
SELECT (SELECT count(*) FROM holdfast_unrouted),
       (SELECT count(*) FROM holdfast_deliveries WHERE state = 'pending')"""

NOTHING = StoreRows([], [], [], frozenset(), frozenset(), {}, [])


class Observer:
    def __init__(self, path: Path, driver: str, ledger: Ledger, note_change: Callable[[], None]) -> None:
        self._path, self._driver, self._ledger, self._note_change = path, driver, ledger, note_change
        self.began = False
        self.seen: dict[int, Seen] = {}

    @cached_property
    def _connection(self) -> Connection:
        """Opened at the first read: before that there may be no file."""
        self.began = True
        return DRIVERS[self._driver](self._path)

    def look(self, at_s: float, touched: Sequence[int]) -> None:
        """Compare the touched deliveries with their last state. Called directly after a commit."""
        for row in self._connection.rows(_THESE, (str(touched),)):
            before, after = self.seen.get(row[0]), Seen._make(row)
            if before == after:
                continue
            self.seen[after.id] = after
            self._note_change()
            self._ledger.changes.append(Change(self._ledger.next_n(), before, after, at_s))
            self._ledger.log(at_s, f"delivery {after.id} {_shown(before)} -> {_shown(after)}")

    def missed(self) -> list[int]:
        """Deliveries that differ from their last recorded state: they changed without a recorded commit."""
        rows = [Seen._make(row) for row in self._connection.rows(_ROWS)] if self.began else []
        return [row.id for row in rows if self.seen.get(row.id) != row]

    def stray(self) -> list[str]:
        """Rows that no commit may leave in the store."""
        return list(stray_rows(self._connection)) if self.began else []

    def rows(self) -> StoreRows:
        """The whole store, in the form the checks use."""
        return read_rows(self._connection) if self.began else NOTHING

    def overtaken(self, delivery: int) -> int | None:
        """The pending delivery ahead of this one in its lane, if there is one."""
        mine = self.seen[delivery]
        if mine.lane is None or mine.pos is None:
            return None
        ahead = [
            row.id
            for row in self.seen.values()
            if row.lane == mine.lane and row.state == "pending" and row.pos is not None and row.pos < mine.pos
        ]
        return min(ahead, default=None)

    def held_by(self, owner: int) -> list[int]:
        """The deliveries leased to an owner."""
        return [row.id for row in self.seen.values() if row.token is not None and row.owner == owner]

    def waiting(self) -> tuple[int, int]:
        """The number of unrouted events and of pending deliveries."""
        unrouted, pending = self._connection.rows(_WAITING)[0]
        return int(unrouted), int(pending)

    def close(self) -> None:
        if self.began:
            self._connection.close()


def _shown(row: Seen | None) -> str:
    if row is None:
        return "new"
    why = f"({row.reason})" if row.reason else ""
    held = f" held by {row.owner}" if row.token is not None else ""
    return f"{row.state}{why} generation {row.generation} attempts {row.attempts} starts {row.starts}{held}"

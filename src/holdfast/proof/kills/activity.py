"""Follows the record files while they are written: what each daemon is doing now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from pathlib import Path

from holdfast.proof.kills.records import Accepted, Answered, Received, RecordReader, Refused, Sent

Pair = tuple[str, str]
"""Contract and event id: one delivery, as known outside the store."""


class Activity:
    """`loads` are the record files of the load processes, in the order of the daemons they post to."""

    def __init__(self, sink: Path, loads: Sequence[Path]) -> None:
        self._sink, self._loads = RecordReader(sink), [RecordReader(path) for path in loads]
        self._open: dict[int, Received] = {}
        self._answered: dict[Pair, int] = {}
        self._posts: list[set[str]] = [set() for _ in loads]
        self.arrived: Counter[int] = Counter()
        self.latest_ns = 0

    def follow(self) -> None:
        """Read the new records of all files."""
        for record in self._sink.more():
            if isinstance(record, Received):
                self._open[record.n] = record
                self._answered.pop((record.contract, record.id), None)
                self.arrived[record.life] += 1
                self.latest_ns = max(self.latest_ns, record.at_ns)
            elif isinstance(record, Answered) and (begun := self._open.pop(record.n, None)) is not None:
                self._answered[begun.contract, begun.id] = begun.life
        for reading, posts in zip(self._loads, self._posts, strict=True):
            for record in reading.more():
                if isinstance(record, Sent):
                    posts.add(record.key)
                elif isinstance(record, Accepted | Refused):
                    posts.discard(record.key)

    def open_requests(self, life: int) -> int:
        return sum(item.life == life for item in self._open.values())

    def forget(self, life: int) -> None:
        """Drop the open requests of a life that has ended."""
        self._open = {n: item for n, item in self._open.items() if item.life != life}

    def doing(self, life: int, daemon: int, leased: Set[Pair], unrouted: int) -> list[str]:
        """What a life was doing when it ended, given the leases it held and the unrouted events."""
        self.follow()
        at_work = {
            "accepting": bool(self._posts[daemon]),
            "routing": unrouted > 0,
            "delivering": self.open_requests(life) > 0,
            "settling": any(self._answered.get(pair) == life for pair in leased),
        }
        return [name for name, so in at_work.items() if so] or ["idle"]

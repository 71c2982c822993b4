"""When `doctor` recommends to move the queue of a PostgreSQL store into pgmq."""

from __future__ import annotations

from typing import NamedTuple


class PromoteAt(NamedTuple):
    """How long the queue is, how many events are accepted in a second, how many dead rows wait for vacuum. 0: never."""

    depth: int = 0
    per_second: int = 0
    dead_rows: int = 0


NEVER = PromoteAt()

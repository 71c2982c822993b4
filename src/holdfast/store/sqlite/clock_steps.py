"""Correct due times after the wall clock was set back, so that deliveries do not wait for the lost time.

Leases run on the boot clock and are not affected. Due times are wall times, so after a step back they are too far in
the future. Each can be corrected exactly: a first attempt is due at once, or at the event's own `not_before`; a retry
waits as long as was decided when its last attempt ended, which is stored. A step forward needs no correction: retries
come early, never late.
"""

from __future__ import annotations

from functools import partial

from holdfast.ports import Clock
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.writer import Writer

TOLERANCE_MS = 1000
PAGE = 2000

# Kept here, since no other store has statements of these names.
_NEWEST = """
SELECT max(at) FROM (
  SELECT max(started_at) AS at FROM holdfast_owners
  UNION ALL SELECT created_at FROM (SELECT created_at FROM holdfast_deliveries ORDER BY id DESC LIMIT 1)
  UNION ALL SELECT ended_at FROM (SELECT ended_at FROM holdfast_attempts ORDER BY id DESC LIMIT 1))"""
_AHEAD = """
SELECT r.delivery, r.due_at, e.not_before,
       (SELECT a.ended_at FROM holdfast_attempts a WHERE a.delivery = d.id AND a.generation = d.generation
        ORDER BY a.id DESC LIMIT 1)
FROM holdfast_ready r JOIN holdfast_deliveries d ON d.id = r.delivery JOIN holdfast_events e ON e.n = d.event
WHERE r.delivery > ?1 AND r.due_at > ?2 ORDER BY r.delivery LIMIT ?3"""
_ENDED = (
    "SELECT a.ended_at FROM holdfast_attempts a WHERE a.delivery = holdfast_deliveries.id ORDER BY a.id DESC LIMIT 1"
)
_CORRECT_HANDED = f"""
UPDATE holdfast_deliveries SET handed_until = ?1 + max(0, handed_until - ({_ENDED}))
WHERE handed_until > ?1 AND ({_ENDED}) > ?1"""  # noqa: S608 - two constants
_CORRECT_DUE = "UPDATE holdfast_ready SET due_at = ? WHERE delivery = ?"


class ClockStepWatch:
    """Detects that the wall clock was set back, against the boot clock; at first, against the newest stored time."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer, self._clock = writer, clock
        self._offset_ms: int | None = None

    async def tick(self) -> int:
        """Correct due times if the clock was set back since the last call. Returns how many were corrected."""
        now_ms = self._clock.now_ms()
        before, self._offset_ms = self._offset_ms, now_ms - self._clock.boot_ms()
        if before is None:
            newest = await self._writer.run(lambda c: c.rows(_NEWEST)[0][0] or 0, durable=False)
            stepped = int(newest) > now_ms + TOLERANCE_MS
        else:
            stepped = self._offset_ms < before - TOLERANCE_MS
        return await self._correct(now_ms) if stepped else 0

    async def _correct(self, now_ms: int) -> int:
        count, at = 0, 0
        await self._writer.run(lambda connection: connection.run(_CORRECT_HANDED, (now_ms,)), heavy=True)
        while True:
            seen, corrected, at = await self._writer.run(partial(_correct_page, at, now_ms), heavy=True)
            count += corrected
            if seen < PAGE:
                return count


def _correct_page(after: int, now_ms: int, connection: Connection) -> tuple[int, int, int]:
    rows = connection.rows(_AHEAD, (after, now_ms, PAGE))
    due = [(corrected_due(now_ms, *row[1:]), row[0]) for row in rows if corrected_due(now_ms, *row[1:]) != row[1]]
    connection.many(_CORRECT_DUE, due)
    return len(rows), len(due), rows[-1][0] if rows else after


def corrected_due(now_ms: int, due_ms: int, not_before_ms: int | None, last_ended_ms: int | None) -> int:
    """The corrected due time of a delivery after the clock was set back.

    >>> corrected_due(1_000, 9_000, None, None), corrected_due(1_000, 9_000, 5_000, None)
    (1000, 5000)
    >>> corrected_due(1_000, 9_000, None, 8_000)
    2000
    """
    if last_ended_ms is None:
        return max(now_ms, not_before_ms or 0)
    if last_ended_ms <= now_ms:
        return due_ms
    return now_ms + max(0, due_ms - last_ended_ms)

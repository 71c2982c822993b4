"""The inbox: handle an event once, although it may arrive more than once.

The row that marks an event as handled is written in the consumer's own transaction, so that it commits together with
the consumer's own writes, or not at all.
"""

from __future__ import annotations

import time
from types import TracebackType

from holdfast.domain.event import check_name
from holdfast.store.door import Door, Tables, run_on, run_on_async
from holdfast.store.drivers import Calls

CALLS = Calls("`with outbox.once(…)`", "`async with outbox.once(…)`")


class Once:
    """For `with` on a blocking connection and `async with` on one that is awaited.

        with outbox.once(connection, event.id, consumer="billing") as first:
            if first:
                connection.execute("update accounts …")

    If the block raises, the mark is removed, so the event can be handled again.
    """

    def __init__(self, connection: object, event_id: str, consumer: str, tables: Tables) -> None:
        self._connection, self._tables = connection, tables
        self._event_id = check_name(event_id, "event id")
        self._consumer = check_name(consumer, "consumer")
        self._first = False

    def __enter__(self) -> bool:
        self._first = run_on(
            self._connection, self._tables, CALLS, Door.receive, self._consumer, self._event_id, _now_ms()
        )
        return self._first

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._first:
            try:
                run_on(self._connection, self._tables, CALLS, Door.forget, self._consumer, self._event_id)
            except Exception as second:
                _add_note(error, second)

    async def __aenter__(self) -> bool:
        self._first = await run_on_async(
            self._connection, self._tables, CALLS, Door.receive, self._consumer, self._event_id, _now_ms()
        )
        return self._first

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._first:
            try:
                await run_on_async(self._connection, self._tables, CALLS, Door.forget, self._consumer, self._event_id)
            except Exception as second:
                _add_note(error, second)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _add_note(error: BaseException, second: Exception) -> None:
    """The mark could not be removed because the transaction is broken. Such a transaction cannot commit either."""
    error.add_note(f"holdfast: the inbox mark could not be removed ({second}); roll the transaction back")

"""The inbox: handle an event once, although it may arrive again.

The note that a consumer handled an event is written in the consumer's own transaction, so that the note and what the
consumer did commit together or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from holdfast.domain.event import check_name
from holdfast.store.door import Door, Steps, run_on, run_on_async
from holdfast.store.drivers import Calls

CALLS = Calls("`with outbox.once(…)`", "`async with outbox.once(…)`")


class Once:
    """For `with` on a connection that blocks and `async with` on one that is awaited.

        with outbox.once(connection, event.id, consumer="billing") as first:
            if first:
                connection.execute("update accounts …")

    If the block raises, the note is taken back: the event may then be handled again.
    """

    def __init__(self, connection: Any, event_id: str, consumer: str, schema: str) -> None:
        self._connection, self._schema = connection, schema
        self._event_id = check_name(event_id, "event id")
        self._consumer = check_name(consumer, "consumer")
        self._first = False

    def __enter__(self) -> bool:
        self._first = run_on(self._connection, self._receive(), self._schema, CALLS)
        return self._first

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._first:
            try:
                run_on(self._connection, self._forget(), self._schema)
            except Exception as second:
                _mention(error, second)

    async def __aenter__(self) -> bool:
        self._first = await run_on_async(self._connection, self._receive(), self._schema, CALLS)
        return self._first

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._first:
            try:
                await run_on_async(self._connection, self._forget(), self._schema)
            except Exception as second:
                _mention(error, second)

    def _receive(self) -> Callable[[Door], Steps[bool]]:
        now_ms = time.time_ns() // 1_000_000
        return lambda door: door.receive(self._consumer, self._event_id, now_ms)

    def _forget(self) -> Callable[[Door], Steps[None]]:
        return lambda door: door.forget(self._consumer, self._event_id)


def _mention(error: BaseException, second: Exception) -> None:
    """The note could not be taken back because the transaction is broken: then it cannot commit either."""
    error.add_note(f"holdfast: the inbox note could not be taken back ({second}); roll the transaction back")

"""Cursors of an application: on its own connection, in its own transaction, or on a connection made for the call."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TypeVar

from holdfast.domain.cursor import Cursor
from holdfast.domain.errors import BadInput
from holdfast.domain.event import check_name
from holdfast.domain.text import short_repr
from holdfast.ports import in_thread
from holdfast.store.door import Door, Tables, run_on, run_on_async
from holdfast.store.drivers import Calls
from holdfast.store.open import open_store
from holdfast.store.roles.cursors import Cursors

T = TypeVar("T")

ENSURE = Calls("ensure_cursor()", "ensure_cursor_async()")
GET = Calls("get_cursor()", "get_cursor_async()")
ADVANCE = Calls("advance_cursor()", "advance_cursor_async()")


class ApplicationCursors:
    """The verbs of `Outbox` on cursors. Without a connection, each opens one of its own and commits."""

    def __init__(self, url: str, tables: Tables) -> None:
        self._url, self._tables = url, tables

    def ensure(self, connection: object | None, reader: str, stream: str, position: int) -> Cursor:
        _check(reader, stream, position)
        if connection is None:
            return self._alone(lambda cursors: cursors.ensure(reader, stream, position))
        return run_on(connection, self._tables, ENSURE, Door.ensure_cursor, reader, stream, position, _now_ms())

    async def ensure_async(self, connection: object | None, reader: str, stream: str, position: int) -> Cursor:
        _check(reader, stream, position)
        if connection is None:
            return await self._with_store(lambda cursors: cursors.ensure(reader, stream, position))
        return await run_on_async(
            connection, self._tables, ENSURE, Door.ensure_cursor, reader, stream, position, _now_ms()
        )

    def get(self, connection: object | None, reader: str, stream: str) -> Cursor | None:
        _check(reader, stream)
        if connection is None:
            return self._alone(lambda cursors: cursors.get(reader, stream))
        return run_on(connection, self._tables, GET, Door.get_cursor, reader, stream)

    async def get_async(self, connection: object | None, reader: str, stream: str) -> Cursor | None:
        _check(reader, stream)
        if connection is None:
            return await self._with_store(lambda cursors: cursors.get(reader, stream))
        return await run_on_async(connection, self._tables, GET, Door.get_cursor, reader, stream)

    def advance(
        self, connection: object | None, reader: str, stream: str, position: int, expected: int | None
    ) -> Cursor:
        _check(reader, stream, position)
        _check_expected(connection, expected)
        if connection is None:
            return self._alone(lambda cursors: cursors.advance(reader, stream, position))
        return run_on(
            connection, self._tables, ADVANCE, Door.advance_cursor, reader, stream, position, expected, _now_ms()
        )

    async def advance_async(
        self, connection: object | None, reader: str, stream: str, position: int, expected: int | None
    ) -> Cursor:
        _check(reader, stream, position)
        _check_expected(connection, expected)
        if connection is None:
            return await self._with_store(lambda cursors: cursors.advance(reader, stream, position))
        return await run_on_async(
            connection, self._tables, ADVANCE, Door.advance_cursor, reader, stream, position, expected, _now_ms()
        )

    def _alone(self, work: Callable[[Cursors], Awaitable[T]]) -> T:
        return run_blocking(self._with_store(work))

    async def _with_store(self, work: Callable[[Cursors], Awaitable[T]]) -> T:
        opening = partial(open_store, self._url, driver="sqlite3", own=False, create=False)
        store = await in_thread("files", opening)
        try:
            return await work(store.cursors)
        finally:
            await store.close()


def run_blocking(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end in a thread of its own: the caller's thread may have an event loop already."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="holdfast:cursors", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _check(reader: object, stream: object, position: object = 0) -> None:
    check_name(reader, "reader")
    check_name(stream, "stream")
    if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position < 1 << 62:
        raise BadInput(f"position must be a whole number from 0, not {short_repr(position)}")


def _check_expected(connection: object | None, expected: object) -> None:
    if expected is not None and connection is None:
        raise BadInput("expected= needs connection=: it guards what your own transaction writes")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

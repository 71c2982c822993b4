"""The part of `Outbox` that reads streams: readers and cursors. It imports nothing until it is used."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.domain.cursor import Cursor
    from holdfast.store.door import Tables
    from holdfast.streams.cursors import ApplicationCursors
    from holdfast.streams.reader import StreamReader


class Reading:
    """Read streams in order, and keep cursors, in the application's own transactions or on a connection of its own."""

    url: str

    if TYPE_CHECKING:

        @property
        def _tables(self) -> Tables: ...

    def read(self, reader: str, streams: str, *, start: str = "beginning") -> StreamReader:
        """Read all streams that match a pattern, each in order, and commit the position in your own transaction.

        reader = outbox.read("totals", "run:*")
        async for event in reader: ...
        """
        from holdfast.domain.reader import check_reader
        from holdfast.streams.reader import StreamReader

        return StreamReader(self.url, self._cursors, check_reader(reader, streams, start))

    def ensure_cursor(
        self, reader: str, stream: str, *, position: int = 0, connection: object | None = None
    ) -> Cursor:  # fmt: skip
        """The cursor of a reader in a stream, created at `position` (0: before the first event) if there is none.

        With `connection` it happens in your transaction, otherwise at once on a connection of its own.
        """
        return self._cursors.ensure(connection, reader, stream, position)

    async def ensure_cursor_async(
        self, reader: str, stream: str, *, position: int = 0, connection: object | None = None
    ) -> Cursor:
        """The same on a connection that is awaited."""
        return await self._cursors.ensure_async(connection, reader, stream, position)

    def get_cursor(self, reader: str, stream: str, *, connection: object | None = None) -> Cursor | None:
        """The cursor of a reader in a stream, or None if it has none."""
        return self._cursors.get(connection, reader, stream)

    async def get_cursor_async(self, reader: str, stream: str, *, connection: object | None = None) -> Cursor | None:
        """The same on a connection that is awaited."""
        return await self._cursors.get_async(connection, reader, stream)

    def advance_cursor(
        self, reader: str, stream: str, position: int, *, expected: int | None = None, connection: object | None = None
    ) -> Cursor:
        """Move a cursor forward. Raises Conflict if it is past that position, or not at the `expected` one."""
        return self._cursors.advance(connection, reader, stream, position, expected)

    async def advance_cursor_async(
        self, reader: str, stream: str, position: int, *, expected: int | None = None, connection: object | None = None
    ) -> Cursor:
        """The same on a connection that is awaited."""
        return await self._cursors.advance_async(connection, reader, stream, position, expected)

    @cached_property
    def _cursors(self) -> ApplicationCursors:
        from holdfast.streams.cursors import ApplicationCursors

        return ApplicationCursors(self.url, self._tables)

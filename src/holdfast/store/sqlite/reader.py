"""Reads parallel to the writer: one connection, short transactions, in a thread so that a long list blocks nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from holdfast.domain.errors import StoreError, StoreFailed
from holdfast.ports import Executor
from holdfast.store.sqlite.connection import Connection

T = TypeVar("T")


class Reader:
    def __init__(
        self, connection: Connection, executor: Executor, failed: Callable[[StoreFailed], None] = lambda error: None
    ) -> None:
        self._connection, self._executor, self._failed = connection, executor, failed

    async def run(self, read: Callable[[Connection], T]) -> T:
        """Run `read` in one snapshot; it must fetch all rows before it returns."""
        try:
            return await self._executor.submit(lambda: self._snapshot(read))
        except StoreFailed as error:
            self._failed(error)
            raise

    def _snapshot(self, read: Callable[[Connection], T]) -> T:
        self._connection.run("BEGIN")
        try:
            result = read(self._connection)
        except BaseException:
            with contextlib.suppress(StoreError):  # report the first error
                self._connection.run("ROLLBACK")
            raise
        self._connection.run("COMMIT")
        return result

    def close(self) -> None:
        self._executor.close()
        self._connection.close()

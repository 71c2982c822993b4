"""Reads beside the writer: one connection, short transactions, in a thread so that a long list delays nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from holdfast.ports import Executor
from holdfast.store.sqlite.connection import Connection

T = TypeVar("T")


class Reader:
    def __init__(self, connection: Connection, executor: Executor) -> None:
        self._connection, self._executor = connection, executor

    async def run(self, look: Callable[[Connection], T]) -> T:
        """Everything `look` reads is one snapshot; it must fetch all rows before it returns."""
        return await self._executor.submit(lambda: self._snapshot(look))

    def _snapshot(self, look: Callable[[Connection], T]) -> T:
        self._connection.run("BEGIN")
        try:
            return look(self._connection)
        finally:
            self._connection.run("COMMIT")

    def close(self) -> None:
        self._executor.close()
        self._connection.close()

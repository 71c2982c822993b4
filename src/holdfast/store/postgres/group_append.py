"""Appends that arrive together share a commit, so that many callers share one round trip and one flush.

A single caller is served at once in its own task. Appends that arrive while others are in progress wait for the next
batch. An append that is refused does not affect the others of its batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from holdfast.domain.errors import HoldfastError, StoreError
from holdfast.domain.event import Appended, NewEvent

BATCHES_MAX = 2
EVENTS_MAX = 500

Prepared = list[tuple[NewEvent, str]]
"""Events with the ids they will have: fixed before the first try, so that a retry does not create a second event."""

Append = Callable[[Prepared], Awaitable[list[Appended]]]


class Waiting(NamedTuple):
    prepared: Prepared
    answer: asyncio.Future[list[Appended]]


class GroupAppend:
    def __init__(self, append: Append) -> None:
        self._append = append
        self._waiting: deque[Waiting] = deque()
        self._batches: set[asyncio.Task[None]] = set()
        self._alone = 0

    async def append(self, prepared: Prepared) -> list[Appended]:
        if self._alone + len(self._batches) < BATCHES_MAX and not self._waiting:
            self._alone += 1
            try:
                return await self._append(prepared)
            finally:
                self._alone -= 1
                self._start_batch()
        waiting = Waiting(prepared, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        return await waiting.answer

    def _start_batch(self) -> None:
        if self._waiting and self._alone + len(self._batches) < BATCHES_MAX:
            task = asyncio.get_running_loop().create_task(self._append_batch(self._take_batch()))
            self._batches.add(task)
            task.add_done_callback(self._batch_done)

    def _batch_done(self, task: asyncio.Task[None]) -> None:
        self._batches.discard(task)
        self._start_batch()

    def _take_batch(self) -> list[Waiting]:
        batch: list[Waiting] = []
        count = 0
        while self._waiting and (not batch or count + len(self._waiting[0].prepared) <= EVENTS_MAX):
            batch.append(self._waiting.popleft())
            count += len(batch[-1].prepared)
        return batch

    async def _append_batch(self, batch: list[Waiting]) -> None:
        """Append the whole batch in one statement; if one append is refused, append each separately."""
        if len(batch) > 1:
            try:
                answers = iter(await self._append([one for waiting in batch for one in waiting.prepared]))
            except StoreError as error:
                for waiting in batch:
                    _fail(waiting, error)
                return
            except HoldfastError:
                pass
            else:
                for waiting in batch:
                    _answer(waiting, [next(answers) for _ in waiting.prepared])
                return
        for waiting in batch:
            try:
                _answer(waiting, await self._append(waiting.prepared))
            except Exception as error:
                _fail(waiting, error)


def _answer(waiting: Waiting, answer: list[Appended]) -> None:
    if not waiting.answer.done():  # the caller may have been cancelled
        waiting.answer.set_result(answer)


def _fail(waiting: Waiting, error: Exception) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(error)

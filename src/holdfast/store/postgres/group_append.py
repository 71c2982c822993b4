"""Appends that arrive together share a commit, so that many callers share one round trip and one flush.

A single caller is served at once in its own task. Whoever arrives while others are under way waits for the next
flight; an append that is refused takes nothing else with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from holdfast.domain.errors import HoldfastError, StoreError
from holdfast.domain.event import Appended, NewEvent

FLIGHTS_MAX = 2
EVENTS_MAX = 500

Prepared = list[tuple[NewEvent, str]]
"""Events with the ids they will have: fixed before the first try, so that a second one is no second event."""

Append = Callable[[Prepared], Awaitable[list[Appended]]]


class Waiting(NamedTuple):
    prepared: Prepared
    answer: asyncio.Future[list[Appended]]


class GroupAppend:
    def __init__(self, append: Append) -> None:
        self._append = append
        self._waiting: deque[Waiting] = deque()
        self._flights: set[asyncio.Task[None]] = set()
        self._alone = 0

    async def append(self, prepared: Prepared) -> list[Appended]:
        if self._alone + len(self._flights) < FLIGHTS_MAX and not self._waiting:
            self._alone += 1
            try:
                return await self._append(prepared)
            finally:
                self._alone -= 1
                self._launch()
        waiting = Waiting(prepared, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        return await waiting.answer

    def _launch(self) -> None:
        if self._waiting and self._alone + len(self._flights) < FLIGHTS_MAX:
            flight = asyncio.get_running_loop().create_task(self._fly(self._board()))
            self._flights.add(flight)
            flight.add_done_callback(self._landed)

    def _landed(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        self._launch()

    def _board(self) -> list[Waiting]:
        boarded: list[Waiting] = []
        count = 0
        while self._waiting and (not boarded or count + len(self._waiting[0].prepared) <= EVENTS_MAX):
            boarded.append(self._waiting.popleft())
            count += len(boarded[-1].prepared)
        return boarded

    async def _fly(self, boarded: list[Waiting]) -> None:
        """All in one; if one of them cannot be accepted, each by itself."""
        if len(boarded) > 1:
            try:
                answers = iter(await self._append([one for waiting in boarded for one in waiting.prepared]))
            except StoreError as error:
                for waiting in boarded:
                    _fail(waiting, error)
                return
            except HoldfastError:
                pass
            else:
                for waiting in boarded:
                    _answer(waiting, [next(answers) for _ in waiting.prepared])
                return
        for waiting in boarded:
            try:
                _answer(waiting, await self._append(waiting.prepared))
            except Exception as error:
                _fail(waiting, error)


def _answer(waiting: Waiting, answer: list[Appended]) -> None:
    if not waiting.answer.done():  # whoever gave up waiting does not hear it
        waiting.answer.set_result(answer)


def _fail(waiting: Waiting, error: Exception) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(error)

"""Verbs on readers of streams: who reads what, and how far behind."""

from __future__ import annotations

from holdfast.operations.answers.page import Page
from holdfast.operations.answers.readers import ReaderAnswer, reader_answer
from holdfast.operations.context import OperationsContext


class ReaderVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._context = context

    async def find(self) -> Page[ReaderAnswer]:
        """All readers, with their lag and what this process has published to their sinks."""
        context = self._context
        statistics, now_ms = context.sinks(), context.clock.now_ms()
        states = await context.store.readers.states()
        return Page([reader_answer(state, statistics.get(state.name), now_ms) for state in states], None)

"""Verbs on deliveries: list, show, retry, cancel."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.address import is_masked
from holdfast.domain.errors import BadInput, Conflict, NotFound
from holdfast.domain.states import Reason, State
from holdfast.domain.text import short_repr
from holdfast.operations.answers.deliveries import (
    DeliveryAnswer,
    DeliveryWithHistory,
    delivery_answer,
    delivery_with_history,
)
from holdfast.operations.answers.page import LIMIT_DEFAULT, Page, check_cursor, check_limit
from holdfast.operations.context import OperationsContext
from holdfast.operations.waiting import find_wait_reasons
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow
from holdfast.store.roles.page import PAGE_MAX

FILTERS = ("state", "reason", "contract", "address", "stream", "event")
_ENDED = frozenset({State.DELIVERED.value, State.DEAD.value, State.DROPPED.value})


class DeliveryVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._context, self._store, self._owner = context, context.store, context.owner

    async def find(
        self, *, after: str | None = None, limit: int = LIMIT_DEFAULT, **filters: str | None
    ) -> Page[DeliveryAnswer]:
        """Deliveries, newest first."""
        page = await self._store.operator.deliveries(make_filter(filters), check_cursor(after), check_limit(limit))
        reasons = await find_wait_reasons(self._context, page.items)
        return Page([delivery_answer(row, reasons) for row in page.items], page.next)

    async def show(self, id: int) -> DeliveryWithHistory:
        """One delivery with its last attempts."""
        row = await self._get(id)
        attempts = (await self._store.operator.attempts(id))[-PAGE_MAX:]
        return delivery_with_history(row, attempts, await find_wait_reasons(self._context, [row]))

    async def retry(self, id: int, actor: str) -> DeliveryWithHistory:
        """Make a pending delivery due now, or requeue a settled one."""
        row = await self._get(id)
        if row.state == State.PENDING:
            await self._store.operator.make_due([id], by=self._owner.acting(actor))
        else:
            await self._store.operator.reprocess(self._owner, [id], _ENDED, actor)
        return await self.show(id)

    async def cancel(self, id: int, actor: str) -> DeliveryWithHistory:
        """End a pending delivery as dropped(cancelled)."""
        row = await self._get(id)
        if not await self._store.operator.cancel(self._owner, [id], actor):
            raise Conflict(f"delivery {id} is {row.state} already; only a pending one can be cancelled")
        return await self.show(id)

    async def _get(self, id: int) -> DeliveryRow:
        row = await self._store.operator.delivery(id)
        if row is None:
            raise NotFound(f"there is no delivery {id}; it may have been pruned")
        return row


def make_filter(filters: Mapping[str, object]) -> DeliveryFilter:
    """A filter from names and values that a caller gave, each checked."""
    texts: dict[str, str | None] = {}
    for name, value in filters.items():
        if name not in FILTERS:
            raise BadInput(f"unknown filter {short_repr(name)}; known are {', '.join(FILTERS)}")
        if value is not None and not isinstance(value, str):
            raise BadInput(f"the filter {name} takes text, not {short_repr(value)}")
        texts[name] = value
    if is_masked(texts.get("address") or ""):
        raise BadInput("this address is masked; give the whole address, or filter by contract")
    for name, words in (("state", State), ("reason", Reason)):
        text = texts.get(name)
        if text is not None and text not in tuple(words):
            raise BadInput(f"{name}={short_repr(text)} is unknown; use one of {', '.join(words)}")
    return DeliveryFilter(**texts)

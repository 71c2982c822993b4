"""Verbs on dead letters: count, inspect, reprocess, discard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.domain.address import without_tokens
from holdfast.domain.errors import BadInput
from holdfast.domain.states import State
from holdfast.operations.answers import LIMIT_DEFAULT, check_cursor, check_limit, delivery_shape, weigh
from holdfast.operations.context import OperationsContext
from holdfast.operations.deliveries import make_filter
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow
from holdfast.store.roles.page import PAGE_BYTES_MAX, PAGE_MAX


class Chosen(NamedTuple):
    """The dead letters that one bulk call takes, and how many more were meant."""

    ids: list[int]
    remaining: int = 0


class DeadLetterVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._store, self._owner = context.store, context.owner

    async def count(self, **filters: str | None) -> dict[str, Any]:
        by_queue: Counter[str] = Counter()
        for queue, count in (await self._store.operator.count_dead(_dead(filters))).items():
            by_queue[without_tokens(queue)] += count
        largest = dict(sorted(by_queue.items(), key=lambda one: (-one[1], one[0]))[:PAGE_MAX])
        left_off = len(by_queue) - len(largest)
        more = {"by_queue_left_off": left_off} if left_off else {}
        return {"count": sum(by_queue.values()), "by_queue": largest, **more}

    async def inspect(
        self, *, after: str | None = None, limit: int = LIMIT_DEFAULT, **filters: str | None
    ) -> dict[str, Any]:
        """Newest first, each with its payload and the story of its failures, until the page is heavy enough."""
        page = await self._store.operator.deliveries(_dead(filters), check_cursor(after), check_limit(limit))
        letters, size = [], 0
        for row in page.items:
            letters.append(await self._letter(row))
            size += weigh(letters[-1])
            if size >= PAGE_BYTES_MAX:
                break
        cut = len(letters) < len(page.items)
        return {"items": letters, "next": str(letters[-1]["id"]) if cut else page.next}

    async def reprocess(
        self,
        *,
        ids: Sequence[int] | None = None,
        filter: Mapping[str, Any] | None = None,
        all: bool = False,
        dry_run: bool = False,
        actor: str,
    ) -> dict[str, Any]:
        """Requeue dead letters, the oldest first: those with these ids, those that a filter matches, or all.

        One call takes at most `PAGE_MAX`; `remaining` is how many more the filter matches. Repeat until it is 0.
        """
        chosen = await self._choose(ids, filter, all)
        done = chosen.ids
        if not dry_run:
            done = await self._store.operator.reprocess(self._owner, done, frozenset({State.DEAD.value}), actor)
        return _bulk_answer("reprocessed", done, chosen.remaining, dry_run)

    async def discard(
        self,
        *,
        ids: Sequence[int] | None = None,
        filter: Mapping[str, Any] | None = None,
        all: bool = False,
        dry_run: bool = False,
        actor: str,
    ) -> dict[str, Any]:
        """End dead letters as dropped(discarded), with a receipt. Chosen and counted as in `reprocess`."""
        chosen = await self._choose(ids, filter, all)
        done = chosen.ids
        if not dry_run:
            done = await self._store.operator.discard(self._owner, done, actor)
        return _bulk_answer("discarded", done, chosen.remaining, dry_run)

    async def _choose(self, ids: Sequence[int] | None, filter: Mapping[str, Any] | None, all: bool) -> Chosen:
        wanted = _dead(filter or {})
        narrowed = wanted != _dead({})
        if (ids is not None) + (filter is not None and (narrowed or not all)) + all != 1:
            raise BadInput("name the dead letters by exactly one of ids, filter, or all: true")
        if ids is not None:
            if not 1 <= len(ids) <= PAGE_MAX:
                raise BadInput(f"name 1 to {PAGE_MAX} ids, not {len(ids)}")
            known = [await self._store.operator.delivery(id) for id in sorted(set(ids))]
            return Chosen([row.id for row in known if row is not None and row.state == State.DEAD])
        if not narrowed and not all:
            raise BadInput("an empty filter matches every dead letter; to choose all of them, send all: true")
        found = await self._store.operator.dead_ids(wanted, PAGE_MAX)
        if len(found) < PAGE_MAX:
            return Chosen(found)
        counted = await self._store.operator.count_dead(wanted)
        return Chosen(found, max(0, sum(counted.values()) - len(found)))

    async def _letter(self, row: DeliveryRow) -> dict[str, Any]:
        event = await self._store.events.get(row.event_id)
        shape = delivery_shape(row, (await self._store.operator.attempts(row.id))[-PAGE_MAX:])
        shape["payload"] = event.as_dict()["payload"] if event is not None else None
        return shape


def _bulk_answer(verb: str, ids: list[int], remaining: int, dry_run: bool) -> dict[str, Any]:
    answer = {verb: len(ids), "ids": ids, "remaining": remaining}
    return {**answer, "dry_run": True} if dry_run else answer


def _dead(filters: Mapping[str, Any]) -> DeliveryFilter:
    if filters.get("state") not in (None, State.DEAD):
        raise BadInput("dead letters are in the state dead; leave the state filter out")
    return make_filter({**filters, "state": State.DEAD.value})

"""Verbs on dead letters: count, inspect, reprocess, discard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.domain.address import without_tokens
from holdfast.domain.errors import BadInput
from holdfast.domain.states import Reason, State
from holdfast.operations.answers.dead_letters import (
    DeadLetter,
    DeadLetterCount,
    DeadLetterGroup,
    DiscardedDeadLetters,
    ReprocessedDeadLetters,
)
from holdfast.operations.answers.deliveries import delivery_with_history
from holdfast.operations.answers.encode import encoded_bytes
from holdfast.operations.answers.events import event_answer
from holdfast.operations.answers.fields import extend
from holdfast.operations.answers.page import LIMIT_DEFAULT, Page, check_cursor, check_limit
from holdfast.operations.context import OperationsContext
from holdfast.operations.deliveries import make_filter
from holdfast.operations.redaction import excerpt
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow
from holdfast.store.roles.page import PAGE_BYTES_MAX, PAGE_MAX

PAYLOAD_CHARS = 16_000
GROUPS_MAX = 100
"""Of a longer payload only the beginning is shown; the event holds all of it."""


class Chosen(NamedTuple):
    """The dead letters that one bulk call takes, and how many more the filter matches."""

    ids: list[int]
    remaining: int = 0


class DeadLetterVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._store, self._owner, self._counts = context.store, context.owner, context.counts

    async def count(self, **filters: str | None) -> DeadLetterCount:
        """How many dead letters there are, in all and by queue."""
        by_queue: Counter[str] = Counter()
        groups: Counter[tuple[str | None, str, str]] = Counter()
        for group in await self._store.operator.dead_groups(_dead(filters)):
            by_queue[without_tokens(group.queue)] += group.letters
            groups[group.contract, without_tokens(group.address), group.reason] += group.letters
        largest = dict(sorted(by_queue.items(), key=lambda item: (-item[1], item[0]))[:PAGE_MAX])
        left_off = len(by_queue) - len(largest)
        shown = sorted(groups.items(), key=lambda item: (-item[1], str(item[0])))[:GROUPS_MAX]
        listed = [DeadLetterGroup(*group, letters) for group, letters in shown]
        return DeadLetterCount(sum(by_queue.values()), largest, listed, left_off or None)

    async def inspect(
        self, *, after: str | None = None, limit: int = LIMIT_DEFAULT, **filters: str | None
    ) -> Page[DeadLetter]:
        """Dead letters with payload and attempts, newest first. A page ends early at `PAGE_BYTES_MAX`."""
        page = await self._store.operator.deliveries(_dead(filters), check_cursor(after), check_limit(limit))
        letters: list[DeadLetter] = []
        size = 0
        for row in page.items:
            letters.append(await self._letter(row))
            size += encoded_bytes(letters[-1])
            if size >= PAGE_BYTES_MAX:
                break
        cut = len(letters) < len(page.items)
        return Page(letters, str(letters[-1].id) if cut else page.next)

    async def reprocess(
        self,
        *,
        ids: Sequence[int] | None = None,
        filter: Mapping[str, object] | None = None,
        all: bool = False,
        dry_run: bool = False,
        actor: str,
    ) -> ReprocessedDeadLetters:
        """Requeue dead letters, the oldest first: those with these ids, those that a filter matches, or all.

        One call takes at most `PAGE_MAX`; `remaining` is how many more the filter matches. Repeat until it is 0.
        """
        chosen = await self._choose(ids, filter, all)
        requeued = chosen.ids
        if not dry_run:
            requeued = await self._store.operator.reprocess(self._owner, requeued, frozenset({State.DEAD.value}), actor)
        return ReprocessedDeadLetters(len(requeued), requeued, chosen.remaining, dry_run or None)

    async def discard(
        self,
        *,
        ids: Sequence[int] | None = None,
        filter: Mapping[str, object] | None = None,
        all: bool = False,
        dry_run: bool = False,
        actor: str,
    ) -> DiscardedDeadLetters:
        """End dead letters as dropped(discarded), with a receipt. Chosen and counted as in `reprocess`."""
        chosen = await self._choose(ids, filter, all)
        discarded = chosen.ids
        if not dry_run:
            discarded = await self._store.operator.discard(self._owner, discarded, actor)
            self._counts.ended(State.DROPPED, Reason.DISCARDED, len(discarded))
        return DiscardedDeadLetters(len(discarded), discarded, chosen.remaining, dry_run or None)

    async def _choose(self, ids: Sequence[int] | None, filter: Mapping[str, object] | None, all: bool) -> Chosen:
        dead_filter = _dead(filter or {})
        narrowed = dead_filter != _dead({})
        if (ids is not None) + (filter is not None and (narrowed or not all)) + all != 1:
            raise BadInput("name the dead letters by exactly one of ids, filter, or all: true")
        if ids is not None:
            if not 1 <= len(ids) <= PAGE_MAX:
                raise BadInput(f"name 1 to {PAGE_MAX} ids, not {len(ids)}")
            rows = [await self._store.operator.delivery(id) for id in sorted(set(ids))]
            return Chosen([row.id for row in rows if row is not None and row.state == State.DEAD])
        if not narrowed and not all:
            raise BadInput("an empty filter matches every dead letter; to choose all of them, send all: true")
        oldest = await self._store.operator.dead_ids(dead_filter, PAGE_MAX)
        if len(oldest) < PAGE_MAX:
            return Chosen(oldest)
        counts = await self._store.operator.count_dead(dead_filter)
        return Chosen(oldest, max(0, sum(counts.values()) - len(oldest)))

    async def _letter(self, row: DeliveryRow) -> DeadLetter:
        event = await self._store.events.get(row.event_id)
        attempts = (await self._store.operator.attempts(row.id))[-PAGE_MAX:]
        payload, cut = excerpt(None if event is None else event_answer(event).payload, PAYLOAD_CHARS)
        return extend(DeadLetter, delivery_with_history(row, attempts), payload=payload, payload_cut=cut or None)


def _dead(filters: Mapping[str, object]) -> DeliveryFilter:
    if filters.get("state") not in (None, State.DEAD):
        raise BadInput("dead letters are in the state dead; leave the state filter out")
    return make_filter({**filters, "state": State.DEAD.value})

"""Replay: send a range of a stream again, to a sink or to a contract."""

from __future__ import annotations

from holdfast.domain.contract import Contract
from holdfast.domain.errors import BadInput, NotFound
from holdfast.domain.event import Event
from holdfast.domain.states import State
from holdfast.domain.text import short_repr
from holdfast.operations.answers.archives import Replayed
from holdfast.operations.context import OperationsContext
from holdfast.operations.contract_rebuild import plan_for, queue_of
from holdfast.store.roles.operator import DeliveryFilter
from holdfast.streams.replay import read_again
from holdfast.streams.sinks.sink import PublishFailed

REPLAY_MAX = 500
_ENDED = frozenset({State.DELIVERED.value, State.DEAD.value, State.DROPPED.value})


class ReplayVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._context, self._store, self._owner = context, context.store, context.owner

    async def run(
        self,
        id: str,
        *,
        first: int = 1,
        last: int | None = None,
        sink: str | None = None,
        contract: str | None = None,
        limit: int = REPLAY_MAX,
        actor: str,
    ) -> Replayed:
        """Send one part of a range again, with the same ids. Call it with `next` until that is None.

        A sink marks the events as a replay. For a contract, ended deliveries of events that it matches are requeued,
        and missing ones are created.
        """
        if (sink is None) == (contract is None):
            raise BadInput("a replay goes to exactly one of sink and contract")
        if first < 1 or (last is not None and last < first) or not 1 <= limit <= REPLAY_MAX:
            raise BadInput(f"from must be at least 1 and at most to, and limit from 1 to {REPLAY_MAX}")
        row = await self._store.events.stream(id)
        if row is None:
            raise NotFound(f"there is no stream {short_repr(id)}")
        end = row.head if last is None else min(last, row.head)
        if first > end:
            return Replayed(id, 0, None)
        if sink is not None:
            events, count = await self._to_sink(sink, id, first, end, limit)
        else:
            events, count = await self._to_contract(str(contract), id, first, end, limit, actor)
        done = events[-1].seq if events else end
        target = f"sink:{sink}" if sink is not None else f"contract:{contract}"
        await self._store.readers.record_replay(id, first, done, target, self._owner.acting(actor))
        return Replayed(id, count, done + 1 if done < end else None)

    async def _to_sink(self, sink: str, stream: str, first: int, end: int, limit: int) -> tuple[list[Event], int]:
        send = self._context.replay_to.get(sink)
        if send is None:
            known = ", ".join(sorted(self._context.replay_to)) or "none"
            raise NotFound(f"this daemon has no sink {short_repr(sink)}; its sinks are: {known}")
        events = await read_again(self._store, self._context.archive_folder, stream, first - 1, end, limit)
        try:
            await send(stream, events)
        except PublishFailed as failed:
            if not failed.published:
                raise NotFound(f"nothing was replayed: {failed}") from None
            events = events[: failed.published]
        return events, len(events)

    async def _to_contract(
        self, id: str, stream: str, first: int, end: int, limit: int, actor: str
    ) -> tuple[list[Event], int]:
        contract, queue = await self._store.contracts.get(id), await queue_of(self._store, id)
        if contract is None:
            raise NotFound(f"there is no contract {short_repr(id)}")
        events = await read_again(self._store, None, stream, first - 1, end, limit)
        matching = [
            event
            for event in events
            if contract.matches(event.source, event.type, event.properties, event.accepted_at_ms)
        ]
        count = 0
        for event in matching:  # one after another: their order is the order in which the deliveries are queued
            count += await self._deliver(contract, queue, event, actor)
        return events, count

    async def _deliver(self, contract: Contract, queue: int, event: Event, actor: str) -> int:
        """Requeue the ended delivery of an event, or create one. A pending one is left as it is."""
        found = await self._store.operator.deliveries(DeliveryFilter(contract=contract.id, event=event.id), None, 1)
        if found.items:
            return len(await self._store.operator.reprocess(self._owner, [found.items[0].id], _ENDED, actor))
        return await self._store.routing.deliver([plan_for(contract, queue, event)], by=self._owner.acting(actor))

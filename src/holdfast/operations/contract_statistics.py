"""What became of the deliveries of contracts: as processes recorded it, with what this one has not recorded yet."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.domain.event import iso_time
from holdfast.operations.answers.contract_statistics import ContractCounts, ContractHourAnswer, ContractStatistics
from holdfast.operations.answers.fields import time_or_none
from holdfast.operations.context import OperationsContext
from holdfast.operations.history import HOUR_MS
from holdfast.store.roles.history import ALL_HOURS, HOURS_MAX, ContractHour
from holdfast.store.roles.operator import DeliveryFilter


async def statistics_of(context: OperationsContext, ids: Sequence[str]) -> list[ContractStatistics]:
    """One for each contract, in the order given. No table that grows with the number of deliveries is scanned."""
    now_ms = context.clock.now_ms()
    last = now_ms // HOUR_MS
    recorded: dict[str, dict[int, ContractHour]] = {id: {} for id in ids}
    for count in await context.store.history.of_contracts(list(ids), last - HOURS_MAX + 1):
        recorded[count.contract][count.hour] = count
    for id in ids:
        fresh = context.counts.unrecorded(id)
        for hour in (ALL_HOURS, last):
            before = recorded[id].get(hour) or ContractHour(id, hour)
            recorded[id][hour] = _sum(id, hour, [before, fresh.in_hour(id, hour)])
    dead = await context.store.operator.count_dead(DeliveryFilter(contract=ids[0] if len(ids) == 1 else None))
    paused = {name for scope, name, _ in await context.store.operator.pauses() if scope == "contract"}
    return [await _statistics(context, id, recorded[id], dead.get(id, 0), id in paused, now_ms) for id in ids]


async def _statistics(
    context: OperationsContext, id: str, recorded: dict[int, ContractHour], dead: int, paused: bool, now_ms: int
) -> ContractStatistics:
    backlog = await context.store.operator.backlog(id)
    last, total = now_ms // HOUR_MS, recorded[ALL_HOURS]
    hours = [recorded.get(hour) or ContractHour(id, hour) for hour in range(last - HOURS_MAX + 1, last + 1)]
    oldest_ms = None if backlog is None else backlog.oldest_ms
    return ContractStatistics(
        contract_id=id,
        paused=paused,
        pending=0 if backlog is None else backlog.pending,
        in_flight=0 if backlog is None else backlog.in_flight,
        oldest_pending_seconds=None if oldest_ms is None else max(0, now_ms - oldest_ms) // 1000,
        dead=dead,
        last_delivered_at=time_or_none(total.delivered_at_ms or None),
        last_failed_at=time_or_none(total.failed_at_ms or None),
        total=_counts(total),
        last_day=_counts(_sum(id, last, hours)),
        hours=[
            ContractHourAnswer(iso_time(one.hour * HOUR_MS), one.delivered, one.dead, one.dropped, one.failed)
            for one in hours
        ],
    )


def _counts(hour: ContractHour) -> ContractCounts:
    latency_s = round(hour.latency_ms / hour.delivered / 1000, 3) if hour.delivered else None
    return ContractCounts(hour.delivered, hour.dead, hour.dropped, hour.failed, latency_s)


def _sum(contract: str, hour: int, counts: Sequence[ContractHour]) -> ContractHour:
    return ContractHour(
        contract,
        hour,
        delivered=sum(one.delivered for one in counts),
        dead=sum(one.dead for one in counts),
        dropped=sum(one.dropped for one in counts),
        failed=sum(one.failed for one in counts),
        latency_ms=sum(one.latency_ms for one in counts),
        delivered_at_ms=max(one.delivered_at_ms for one in counts),
        failed_at_ms=max(one.failed_at_ms for one in counts),
    )

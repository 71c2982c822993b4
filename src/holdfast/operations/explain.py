"""Why an event went where it went: which contracts match it, which do not, and which of their criteria failed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from heapq import nsmallest
from itertools import takewhile
from typing import NamedTuple

from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.event import Event, iso_time
from holdfast.domain.receipt import Link
from holdfast.operations.answers.explain import DeliveryReceipt, MissedContract, MissGroup
from holdfast.store.roles.operator import AttemptRow, DeliveryRow

NEAREST_DEFAULT = 20
WHY_MAX = 10  # sentences for one contract, and groups of mismatches
BATCH = 500  # contracts matched before other tasks get their turn
TYPE_WEIGHT, SOURCE_WEIGHT, PROPERTY_WEIGHT = 4, 3, 1  # of criteria, when contracts are ranked


class NearMiss(NamedTuple):
    """A contract that does not match an event. Sorts nearest first.

    `unfit` is the weighted share of criteria that failed, so 0 for a contract that is only disabled or expired. Ties go
    to the contract with fewer failures, then to the one that names a type more like the event's.
    """

    unfit: float
    failed: int
    unlike: int
    id: str
    why: tuple[str, ...]

    def as_answer(self) -> MissedContract:
        return MissedContract(self.id, self.failed, list(self.why))


class Matches(NamedTuple):
    """All contracts against one event: the ids of those that match, the nearest of the others, and their number."""

    matching: list[str]
    nearest: list[NearMiss]
    missed: int


async def match_all(contracts: Iterable[Contract], event: Event, limit: int) -> Matches:
    """Match every contract, disabled ones too. Other tasks run in between."""
    matching: list[str] = []
    nearest: list[NearMiss] = []
    missed = 0
    for number, contract in enumerate(contracts, 1):
        why = why_not(contract, event)
        if why:
            missed += 1
            unmet = len(why) - (not contract.active) - contract.is_expired(event.accepted_at_ms)
            likeness = type_likeness(contract.type_criterion, event.type)
            unfit = unfitness(contract, event, unmet)
            nearest.append(NearMiss(unfit, len(why), -likeness, contract.id, tuple(why[:WHY_MAX])))
        else:
            matching.append(contract.id)
        if number % BATCH == 0:
            nearest = nsmallest(limit, nearest)
            await asyncio.sleep(0)
    return Matches(matching, nsmallest(limit, nearest), missed)


def change_times(row: DeliveryRow, attempts: Iterable[AttemptRow]) -> set[int]:
    """The milliseconds at which a delivery changed. The receipt of each change has the same time."""
    times_ms = {attempt.ended_at_ms for attempt in attempts}
    return times_ms if row.settled_at_ms is None else times_ms | {row.settled_at_ms}


def receipts_of(delivery: int, links: Iterable[Link]) -> list[DeliveryReceipt]:
    """What these links record about one delivery, oldest first."""
    mark = b'"delivery":%d,' % delivery  # cannot occur inside a string of a leaf: quotes are escaped there
    lines = [(link, json.loads(line)) for link in links for line in link.leaves.split(b"\n") if mark in line]
    return [
        DeliveryReceipt(
            chain=link.chain,
            seq=link.seq,
            h_self=link.hash.hex(),
            at=iso_time(link.at_ms),
            generation=leaf["generation"],
            state=leaf["state"],
            reason=leaf["reason"],
            actor=leaf["actor"],
        )
        for link, leaf in lines
    ]


def why_not(contract: Contract, event: Event) -> list[str]:
    """One sentence for every criterion that fails. Empty if the contract matches the event."""
    why = list(contract.mismatches(event.source, event.type, event.properties, event.accepted_at_ms))
    return why if contract.active else ["the contract is disabled", *why]


def unfitness(contract: Contract, event: Event, unmet: int) -> float:
    """The weighted share of a contract's criteria that an event fails, from 0 (none) to 1 (all).

    `unmet` counts all failures. Those beyond the criteria written in the contract come from the rule that some sources
    must be named, and weigh as a source.
    """
    total = failed = 0
    for weight, criterion, value in _criteria(contract, event):
        total += weight
        if not criterion.passes(value):
            failed += weight
            unmet -= 1
    unwritten = max(0, unmet) * SOURCE_WEIGHT
    return (failed + unwritten) / (total + unwritten) if total + unwritten else 0.0


def _criteria(contract: Contract, event: Event) -> Iterable[tuple[int, Criterion, object]]:
    """Every criterion that can fail, with its weight and the event's value."""
    criteria = [
        (TYPE_WEIGHT, contract.type_criterion, event.type),
        (SOURCE_WEIGHT, contract.source_criterion, event.source),
        *((PROPERTY_WEIGHT, criterion, event.properties.get(name)) for name, criterion in contract.properties.items()),
    ]
    return [
        (weight, criterion, value)
        for weight, criterion, value in criteria
        if criterion is not None and criterion.required
    ]


def type_likeness(criterion: Criterion | None, type: str) -> int:
    """How many characters the event's type shares with the start of a type that the criterion names."""
    if criterion is None:
        return 0
    match = (criterion.match,) if isinstance(criterion.match, str) else criterion.match or ()
    return max(_shared_start(type, named) for named in (*match, criterion.pattern or ""))


def _shared_start(first: str, second: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def group_misses(contract: Contract, events: Iterable[Event]) -> list[MissGroup]:
    """Why events do not match, grouped by sentence; first what was the only reason for most events."""
    total: dict[str, int] = {}
    alone: dict[str, int] = {}
    examples: dict[str, str] = {}
    for event in events:
        why = why_not(contract, event)
        for sentence in why:
            total[sentence] = total.get(sentence, 0) + 1
            alone[sentence] = alone.get(sentence, 0) + (len(why) == 1)
            examples.setdefault(sentence, event.id)
    groups = [MissGroup(sentence, total[sentence], alone[sentence], examples[sentence]) for sentence in total]
    return sorted(groups, key=lambda group: (-group.alone, -group.events, group.why))


def verdict(matches: Matches, deliveries: int, late: list[str], direct: bool) -> str:
    """The explanation in one sentence. `late`: contracts that match now and have no delivery."""
    contracts = len(matches.matching) + matches.missed
    if deliveries:
        sentence = f"it has {_count(deliveries, 'delivery', 'deliveries')}"
    elif direct:
        sentence = "it has no delivery yet: it waits for the router, or its direct address cannot be delivered to"
    elif not contracts:
        sentence = "no contract matches it: there are no contracts"
    elif not matches.matching:
        sentence = f"no contract matches it: {_count(contracts, 'contract')} checked"
    else:
        sentence = "it has no delivery"
    if late:
        sentence += (
            f"; {_count(len(late), 'contract')} would match it now but got no delivery: the event waits for the "
            "router, or was routed before the contract was added or changed"
        )
    return sentence


def _count(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"

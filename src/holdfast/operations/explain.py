"""Why an event went where it went: which contracts matched it, which did not, and on which criteria those failed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from heapq import nsmallest
from itertools import takewhile
from typing import Any, NamedTuple

from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.event import Event, iso_time
from holdfast.domain.receipt import Link
from holdfast.store.roles.operator import AttemptRow, DeliveryRow

NEAR_DEFAULT = 20
WHY_MAX = 10  # sentences for one contract, and groups of misses
AT_ONCE = 500  # contracts asked before other tasks get their turn
TYPE_WEIGHT, SOURCE_WEIGHT, PROPERTY_WEIGHT = 4, 3, 1  # what a criterion counts for when contracts are ranked


class Missed(NamedTuple):
    """A contract that did not match an event. They sort by how near they came.

    `unfit` is the weighted share of criteria that failed, so 0 for a contract that is only disabled or expired. Ties go
    to the one with fewer failures, then to the one that names a type more like the event's.
    """

    unfit: float
    failed: int
    unlike: int
    id: str
    why: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"contract_id": self.id, "failed": self.failed, "why": list(self.why)}


class Opinions(NamedTuple):
    """What all contracts say to one event: who wants it, by id, and who came nearest of the others."""

    wanting: list[str]
    nearest: list[Missed]
    missing: int


async def ask_all(contracts: Iterable[Contract], event: Event, limit: int) -> Opinions:
    """Ask every contract, disabled ones too; others get their turn meanwhile."""
    wanting: list[str] = []
    nearest: list[Missed] = []
    missing = 0
    for number, contract in enumerate(contracts, 1):
        why = why_not(contract, event)
        if why:
            missing += 1
            unmet = len(why) - (not contract.active) - contract.is_over(event.accepted_at_ms)
            like = type_likeness(contract.type_criterion, event.type)
            why_shown = tuple(why[:WHY_MAX])
            nearest.append(Missed(unfit(contract, event, unmet), len(why), -like, contract.id, why_shown))
        else:
            wanting.append(contract.id)
        if number % AT_ONCE == 0:
            nearest = nsmallest(limit, nearest)
            await asyncio.sleep(0)
    return Opinions(wanting, nsmallest(limit, nearest), missing)


def moments_of(row: DeliveryRow, attempts: Iterable[AttemptRow]) -> set[int]:
    """When a delivery changed: each change was written down in the book at the same moment."""
    moments = {attempt.ended_at_ms for attempt in attempts}
    return moments if row.settled_at_ms is None else moments | {row.settled_at_ms}


def receipts_of(delivery: int, links: Iterable[Link]) -> list[dict[str, Any]]:
    """What the book says about one delivery, the oldest first: which link, and what it bears witness of."""
    mark = b'"delivery":%d,' % delivery  # no other word of a leaf can hold it: quotes in them are escaped
    lines = [(link, json.loads(line)) for link in links for line in link.leaves.split(b"\n") if mark in line]
    return [
        {
            "chain": link.chain,
            "seq": link.seq,
            "h_self": link.hash.hex(),
            "at": iso_time(link.at_ms),
            **{name: leaf[name] for name in ("generation", "state", "reason", "actor")},
        }
        for link, leaf in lines
    ]


def why_not(contract: Contract, event: Event) -> list[str]:
    """One sentence for every criterion that fails; none: the contract wants the event."""
    why = list(contract.misses(event.source, event.type, event.properties, event.accepted_at_ms))
    return why if contract.active else ["the contract is disabled", *why]


def unfit(contract: Contract, event: Event, unmet: int) -> float:
    """How much of a contract's criteria an event fails, from 0 (nothing) to 1 (everything).

    `unmet` counts all that failed. What exceeds the criteria written in the contract is the rule that some sources must
    be named, and weighs as a source.
    """
    total = failed = 0
    for weight, criterion, value in _criteria(contract, event):
        total += weight
        if not criterion.passes(value):
            failed += weight
            unmet -= 1
    hidden = max(0, unmet) * SOURCE_WEIGHT
    return (failed + hidden) / (total + hidden) if total + hidden else 0.0


def _criteria(contract: Contract, event: Event) -> Iterable[tuple[int, Criterion, Any]]:
    """Every criterion that can fail, with its weight and the event's value."""
    named = [
        (TYPE_WEIGHT, contract.type_criterion, event.type),
        (SOURCE_WEIGHT, contract.source_criterion, event.source),
        *((PROPERTY_WEIGHT, one, event.properties.get(name)) for name, one in contract.properties.items()),
    ]
    return [(weight, one, value) for weight, one, value in named if one is not None and one.required]


def type_likeness(criterion: Criterion | None, type: str) -> int:
    """How many characters the event's type shares with the start of the type a contract names."""
    if criterion is None:
        return 0
    match = (criterion.match,) if isinstance(criterion.match, str) else criterion.match or ()
    return max(_shared_start(type, wanted) for wanted in (*match, criterion.pattern or ""))


def _shared_start(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def group_misses(contract: Contract, events: Iterable[Event]) -> dict[str, Any]:
    """Why events were missed, said once for all that failed alike; first what alone kept most events away."""
    groups: dict[str, dict[str, Any]] = {}
    for event in events:
        why = why_not(contract, event)
        for sentence in why:
            group = groups.setdefault(sentence, {"why": sentence, "events": 0, "alone": 0, "example": event.id})
            group["events"] += 1
            group["alone"] += len(why) == 1
    ordered = sorted(groups.values(), key=lambda group: (-group["alone"], -group["events"], group["why"]))
    return {"misses": ordered[:WHY_MAX], "misses_left_off": len(ordered[WHY_MAX:])}


def verdict(opinions: Opinions, deliveries: int, late: list[str], direct: bool) -> str:
    """The answer in one sentence."""
    known = len(opinions.wanting) + opinions.missing
    if deliveries:
        said = f"it has {_many(deliveries, 'delivery', 'deliveries')}"
    elif direct:
        said = "it has no delivery yet: it waits for the router, or its direct address cannot be delivered to"
    elif not known:
        said = "nobody wants it: there are no contracts"
    elif not opinions.wanting:
        said = f"nobody wants it: {_many(known, 'contract')} missed it"
    else:
        said = "it has no delivery"
    if late:
        said += (
            f"; {_many(len(late), 'contract')} would want it now but got none: the event waits for the router, or was "
            "routed before they were as they are"
        )
    return said


def _many(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"

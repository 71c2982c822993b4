"""Answers about contracts. Secrets never appear in them, and headers only with their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, TypeAlias

from holdfast.domain.address import Address, without_tokens
from holdfast.domain.contract import SOURCES, Contract, Criterion
from holdfast.domain.event import iso_time
from holdfast.operations.answers.explain import MissGroup
from holdfast.operations.answers.fields import OMITTED_IF_NONE, Format, Time, time_or_none

MASKED = "***"
ContractOrigin = Annotated[str, Format(enum=SOURCES)]

ContractTarget: TypeAlias = dict[str, str | bool | None]
"""Where a contract delivers: one key per address kind, one of them not null; `secret`, always null; `has_secret`."""


@dataclass(frozen=True, slots=True)
class CriterionAnswer:
    """A condition on one value. See the request schema of contracts."""

    match: str | list[str] | None
    pattern: str | None
    required: bool


@dataclass(frozen=True, slots=True)
class ContractAnswer:
    """One contract with all options in force.

    `unserved`: no process serves its handler. `retired`: the code that registered it no longer does.
    `misconfigured`: why its deliveries wait, null if they do not. `public_keys` is there only for a contract that
    signs with a private key. `senders`: whose events become messages for its session.
    """

    id: str
    target: ContractTarget
    source_criterion: CriterionAnswer | None
    type_criterion: CriterionAnswer | None
    properties: dict[str, CriterionAnswer]
    active: bool
    source: ContractOrigin
    created_at: Time
    expires_at: Time | None
    policy: str
    attempts: int | None
    ordered: bool
    timeout: float | None
    concurrency: int | None
    rate: str | None
    headers: dict[str, str]
    format: str | None
    template: str | None
    retry_on: list[int]
    senders: object
    unserved: bool
    retired: bool
    misconfigured: str | None
    public_keys: list[str] | None = field(default=None, metadata=OMITTED_IF_NONE)


@dataclass(frozen=True, slots=True)
class ContractList:
    """Contracts ordered by id. JSON shows `items` alone; REST puts `next` into the header `Link`."""

    JSON_FIELD: ClassVar[str] = "items"

    items: list[ContractAnswer]
    next: str | None


@dataclass(frozen=True, slots=True)
class PropertyValues:
    """Property names that contracts have criteria on, each with the values they name.

    JSON shows `values` alone; REST puts `next` into the header `Link`.
    """

    JSON_FIELD: ClassVar[str] = "values"

    values: dict[str, list[str]]
    next: str | None


@dataclass(frozen=True, slots=True)
class RebuiltContract:
    """Some events, and what a contract has of them: how many it matches, and how many deliveries were missing.

    The missing ones were created, or with `dry_run` only counted. `next`: where to continue; null at the end.
    """

    id: str
    events: int
    matched: int
    missing: int
    dry_run: bool
    next: str | None


@dataclass(frozen=True, slots=True)
class RemovedContract:
    """The id of a contract that was removed."""

    deactivated: str


@dataclass(frozen=True, slots=True)
class MatchedEvent:
    """An event that a tried contract matches."""

    id: str
    type: str
    source: str
    stream: str


@dataclass(frozen=True, slots=True)
class ContractTrial:
    """A contract tried on past events: how many it was tried on, how many match, and why the others do not."""

    tested: int
    matched: int
    items: list[MatchedEvent]
    misses: list[MissGroup]
    misses_left_off: int


def contract_answer(
    contract: Contract, *, has_secret: bool, active: bool, unserved: bool, fault: str | None
) -> ContractAnswer:
    address = contract.target
    return ContractAnswer(
        id=contract.id,
        target=_target(address, has_secret),
        source_criterion=_or_none(contract.source_criterion),
        type_criterion=_or_none(contract.type_criterion),
        properties={name: _criterion_answer(criterion) for name, criterion in contract.properties.items()},
        active=active,
        source=contract.source,
        created_at=iso_time(contract.created_at_ms),
        expires_at=time_or_none(contract.expires_at_ms),
        policy=contract.policy_name,
        attempts=contract.attempts,
        ordered=contract.is_ordered,
        timeout=contract.timeout_s,
        concurrency=contract.concurrency,
        rate=contract.rate,
        headers=dict.fromkeys(contract.headers, MASKED),
        format=contract.format or ("raw" if address.kind == "https" else None),
        template=contract.template,
        retry_on=list(contract.retry_on),
        senders=None if contract.senders is None else contract.senders.as_json(),
        unserved=unserved,
        retired=contract.retired,
        misconfigured=fault,
    )


def _target(address: Address, has_secret: bool) -> ContractTarget:
    kinds = {key: value and without_tokens(value) for key, value in address.as_target().items()}
    return {**kinds, "secret": None, "has_secret": has_secret}


def _or_none(criterion: Criterion | None) -> CriterionAnswer | None:
    return None if criterion is None else _criterion_answer(criterion)


def _criterion_answer(criterion: Criterion) -> CriterionAnswer:
    match = list(criterion.match) if isinstance(criterion.match, tuple) else criterion.match
    return CriterionAnswer(match, criterion.pattern, criterion.required)

"""The contracts in force at one version, and what they want of an event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.domain.address import KINDS, parse_address
from holdfast.domain.contract import Contract, Terms, default_terms
from holdfast.domain.ed25519 import is_available as can_sign_by_key
from holdfast.domain.errors import BadInput
from holdfast.domain.event import Event
from holdfast.domain.lane import SESSIONS, burst_key, is_ordered_directly, lane_key
from holdfast.domain.misconfiguration import misconfiguration
from holdfast.domain.retry import Policy
from holdfast.routing.index import ContractIndex
from holdfast.store.roles.contracts import ContractChange, Contracts, ContractSecrets
from holdfast.store.roles.routing import RouteTarget

log = logging.getLogger("holdfast.router")


class Registry:
    """A cache of the store's contracts. The router checks its version in the transaction that uses it.

    `interval_us`: the time between two requests to one URL, where its contract does not say.
    """

    def __init__(self, contracts: Contracts, policies: Mapping[str, Policy], interval_us: int = 0) -> None:
        self._contracts, self._policies, self._interval_us = contracts, policies, interval_us
        self._turn = asyncio.Lock()
        self.version = -1
        self._known: dict[str, Contract] = {}
        self._index = ContractIndex()
        self._queues: dict[str, int] = {}
        self._terms: dict[str, Terms] = {}
        self._private: dict[str, ContractSecrets] = {}
        self._faults: dict[str, str] = {}
        self._cannot_sign: frozenset[str] = frozenset()

    async def refresh(self) -> None:
        """Read until what was read belongs to one version: everything at first, and then only what changed since."""
        async with self._turn:
            while (version := await self._contracts.version()) != self.version:
                anew = not 0 <= self.version < version  # a store that was put back to an earlier state is a new one
                changes = await (self._everything() if anew else self._contracts.changed(self.version))
                if not can_sign_by_key():
                    self._cannot_sign = frozenset(await self._contracts.with_private_keys())
                if await self._contracts.version() == version:
                    self._apply(changes, anew)
                    self.version = version

    async def _everything(self) -> list[ContractChange]:
        queues = {row.contract_id: row.id for row in await self._contracts.queues() if row.contract_id}
        known = await self._contracts.all(inactive=True)
        return [ContractChange(contract.id, contract, queues.get(contract.id)) for contract in known]

    def _apply(self, changes: Sequence[ContractChange], anew: bool) -> None:
        """Bring everything that is held to these changes; the index by them alone where they are few."""
        found = [change.contract for change in changes if change.contract is not None]
        faults = {one.id: fault for one in found if (fault := self._fault(one)) is not None}
        sound = [one for one in found if one.id not in faults]
        terms = {one.id: self._paced(one.terms(self._policies), one.address.kind) for one in sound}
        if anew:
            self._known, self._queues, self._terms, self._private, self._faults = {}, {}, {}, {}, {}
        moved = [change for change in changes if change.contract != self._known.get(change.id)]
        rebuild = anew or len(moved) > len(self._known) // 4
        for id, contract, queue in changes:
            for cache in (self._private, self._terms):
                cache.pop(id, None)
            if contract is None or queue is None:
                for held in (self._known, self._queues):
                    held.pop(id, None)
            else:
                self._known[id], self._queues[id] = contract, queue
                if id in terms:
                    self._terms[id] = terms[id]
            self._note_fault(id, faults.get(id) if contract is not None else None)
        if rebuild:
            self._index = ContractIndex(contract for contract in self._known.values() if contract.active)
            return
        for id, _, _ in moved:
            self._index.remove(id)
            contract = self._known.get(id)
            if contract is not None and contract.active:
                self._index.put(contract)

    def _fault(self, contract: Contract) -> str | None:
        if contract.id in self._cannot_sign:
            return "it signs with a private key, which needs cryptography: install holdfast[ed25519]"
        return misconfiguration(contract, self._policies)

    def _note_fault(self, id: str, fault: str | None) -> None:
        before = self._faults.pop(id, None)
        if fault is None:
            if before is not None:
                log.info("contract %s is no longer misconfigured", id)
            return
        self._faults[id] = fault
        if fault != before:
            log.error("contract %s is misconfigured: %s. What it must deliver waits until that is repaired", id, fault)

    def faults(self) -> Mapping[str, str]:
        """The contracts that are misconfigured here, and why."""
        return self._faults

    def blocked_queues(self) -> list[int]:
        """The queues of misconfigured contracts: nothing of them can be delivered by this process."""
        return [self._queues[id] for id in self._faults if id in self._queues]

    def targets(self, event: Event) -> tuple[RouteTarget, ...]:
        """Where one event goes: to every contract that wants it, by their ids, and to its direct address."""
        wanting = self._index.matching(event.source, event.type, event.properties, event.accepted_at_ms)
        found = [_target(contract, self._queues[contract.id], event) for contract in wanting]
        if event.to is not None:
            found.extend(_direct(event, event.to))
        return tuple(found)

    def wants(self, source: str, type: str, properties: Mapping[str, Any], now_ms: int) -> bool:
        """Whether any contract would be given such an event."""
        return bool(self._index.matching(source, type, properties, now_ms))

    def is_trusted(self, contract_id: str) -> bool:
        """Whether the target was written by the operator: in the configuration or in the application's own code."""
        contract = self._known.get(contract_id)
        return contract is not None and contract.source != "api"

    def contract(self, contract_id: str) -> Contract | None:
        """A contract as of the version in force, active or not."""
        return self._known.get(contract_id)

    def forget_private(self) -> None:
        """Look anew at the next use: an old secret's time may be over, which changes no version."""
        self._private = {}

    async def private(self, contract_id: str, now_ms: int = 0) -> ContractSecrets:
        """A contract's signing secrets and headers as of the version in force, none of them past its time."""
        known = self._private.get(contract_id)
        if known is None or (known.until_ms is not None and known.until_ms <= now_ms):
            known = self._private[contract_id] = await self._contracts.private(contract_id)
        return known

    def terms_of(self, contract_id: str | None, kind: str) -> Terms:
        """How a delivery is carried out; of a contract that is gone, by the defaults of its kind."""
        known = self._terms.get(contract_id) if contract_id is not None else None
        return known or self._paced(default_terms(kind, self._policies), kind)

    def _paced(self, terms: Terms, kind: str) -> Terms:
        """With the rate that goes for every URL that has none of its own."""
        paced = KINDS[kind].gated and self._interval_us and not terms.interval_us
        return terms._replace(interval_us=self._interval_us) if paced else terms


class Refreshing:
    """Notices that another process changed the contracts, also in a process that only delivers."""

    name = "registry"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def tick(self) -> float | None:
        await self._registry.refresh()
        return None


def _target(contract: Contract, queue: int, event: Event) -> RouteTarget:
    address = contract.address
    lane = lane_key(address.kind, address.text, contract.id, _stream(event), contract.is_ordered)
    return RouteTarget(queue, address.text, address.kind, lane, _burst(address.text, event))


def _direct(event: Event, to: str) -> list[RouteTarget]:
    try:
        address = parse_address(to)
    except BadInput as error:  # plain SQL may say anything: such an event is listed as unmatched, and stops nobody
        log.warning("event %s cannot go to its direct address: %s", event.id, error)
        return []
    if KINDS[address.kind].deliverer is None:
        log.warning("event %s cannot go to %s: this version delivers to no %s", event.id, to, address.kind)
        return []
    lane = lane_key(address.kind, address.text, None, _stream(event), is_ordered_directly(address.text))
    return [RouteTarget(None, address.text, address.kind, lane, _burst(address.text, event))]


def _burst(address: str, event: Event) -> str | None:
    return burst_key(address, event.type, event.properties) if address == SESSIONS else None


def _stream(event: Event) -> str | None:
    return event.stream if event.stream != event.id else None

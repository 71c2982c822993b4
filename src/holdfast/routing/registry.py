"""The contracts in force at one version, and what they want of an event."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Terms, default_terms
from holdfast.domain.errors import BadInput
from holdfast.domain.event import Event
from holdfast.domain.lane import SESSIONS, burst_key, lane_key
from holdfast.domain.retry import Policy
from holdfast.store.base import Contracts, Private, Target

log = logging.getLogger("holdfast.router")


class Registry:
    """A cache of the store's contracts. The router checks its version in the transaction that uses it."""

    def __init__(self, contracts: Contracts, policies: Mapping[str, Policy]) -> None:
        self._contracts, self._policies = contracts, policies
        self.version = -1
        self._active: list[tuple[Contract, int]] = []
        self._known: dict[str, Contract] = {}
        self._terms: dict[str, Terms] = {}
        self._trusted: frozenset[str] = frozenset()
        self._private: dict[str, Private] = {}

    async def refresh(self) -> None:
        """Read until what was read belongs to one version."""
        while (version := await self._contracts.version()) != self.version:
            queues = {row.contract_id: row.id for row in await self._contracts.queues() if row.contract_id}
            known = await self._contracts.all(inactive=True)
            if await self._contracts.version() != version:
                continue
            self._active = [(contract, queues[contract.id]) for contract in known if contract.active]
            self._known = {contract.id: contract for contract in known}
            self._terms = {contract.id: contract.terms(self._policies) for contract in known}
            self._trusted = frozenset(contract.id for contract in known if contract.source != "api")
            self._private = {}
            self.version = version

    def targets(self, event: Event) -> tuple[Target, ...]:
        """Where one event goes: to every contract that wants it, and to its direct address."""
        found = [
            _target(contract, queue, event)
            for contract, queue in self._active
            if contract.matches(event.source, event.type, event.properties, event.accepted_at_ms)
        ]
        if event.to is not None:
            found.extend(_direct(event, event.to))
        return tuple(found)

    def wants(self, source: str, type: str, properties: Mapping[str, Any], now_ms: int) -> bool:
        """Whether any contract would be given such an event."""
        return any(contract.matches(source, type, properties, now_ms) for contract, _ in self._active)

    def is_trusted(self, contract_id: str) -> bool:
        """Whether the target was written by the operator: in the configuration or in the application's own code."""
        return contract_id in self._trusted

    def contract(self, contract_id: str) -> Contract | None:
        """A contract as of the version in force, active or not."""
        return self._known.get(contract_id)

    async def private(self, contract_id: str) -> Private:
        """A contract's signing secrets and headers as of the version in force."""
        known = self._private.get(contract_id)
        if known is None:
            known = self._private[contract_id] = await self._contracts.private(contract_id)
        return known

    def terms_of(self, contract_id: str | None, kind: str) -> Terms:
        """How a delivery is carried out; of a contract that is gone, by the defaults of its kind."""
        known = self._terms.get(contract_id) if contract_id is not None else None
        return known or default_terms(kind, self._policies)


def _target(contract: Contract, queue: int, event: Event) -> Target:
    address = contract.address
    lane = lane_key(address.kind, address.text, contract.id, _stream(event), contract.is_ordered)
    return Target(queue, address.text, address.kind, lane, _burst(address.text, event))


def _direct(event: Event, to: str) -> list[Target]:
    try:
        address = parse_address(to)
    except BadInput as error:  # plain SQL may say anything: such an event is listed as unmatched, and stops nobody
        log.warning("event %s cannot go to its direct address: %s", event.id, error)
        return []
    lane = lane_key(address.kind, address.text, None, _stream(event), ordered=address.text == SESSIONS)
    return [Target(None, address.text, address.kind, lane, _burst(address.text, event))]


def _burst(address: str, event: Event) -> str | None:
    return burst_key(address, event.type, event.properties) if address == SESSIONS else None


def _stream(event: Event) -> str | None:
    return event.stream if event.stream != event.id else None

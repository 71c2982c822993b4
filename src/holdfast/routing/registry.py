"""The contracts in force at one version, and the targets of an event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from holdfast.domain.address import KINDS, parse_address
from holdfast.domain.contract import Contract, Terms, default_terms
from holdfast.domain.ed25519 import is_available as can_sign_by_key
from holdfast.domain.errors import BadInput
from holdfast.domain.event import Event
from holdfast.domain.extras import install_command
from holdfast.domain.lane import MESSAGES, SESSIONS, burst_key, is_ordered_directly, lane_key
from holdfast.domain.message import is_message
from holdfast.domain.misconfiguration import misconfiguration
from holdfast.domain.ping import is_ping
from holdfast.domain.retry import Policy
from holdfast.routing.index import ContractIndex
from holdfast.routing.match_cache import Match, MatchCache
from holdfast.routing.reader_marks import ReaderMarks
from holdfast.store.roles.contracts import ContractChange, Contracts, ContractSecrets
from holdfast.store.roles.readers import Readers
from holdfast.store.roles.routing import RouteTarget

log = logging.getLogger("holdfast.router")


class Registry:
    """A cache of the store's contracts. The router checks its version in the transaction that uses it.

    `interval_us`: the time between two requests to one URL, unless its contract has a rate. Readers of streams belong
    to the same version.
    """

    def __init__(
        self,
        contracts: Contracts,
        policies: Mapping[str, Policy],
        interval_us: int = 0,
        readers: Readers | None = None,
    ) -> None:
        self._contracts, self._policies, self._interval_us = contracts, policies, interval_us
        self._marks = None if readers is None else ReaderMarks(readers)
        self._turn = asyncio.Lock()
        self.version = -1
        self._known: dict[str, Contract] = {}
        self._index = ContractIndex()
        self._matches = MatchCache()
        self._queues: dict[str, int] = {}
        self._terms: dict[str, Terms] = {}
        self._private: dict[str, ContractSecrets] = {}
        self._faults: dict[str, str] = {}
        self._cannot_sign: frozenset[str] = frozenset()

    async def refresh(self) -> None:
        """Read until the result belongs to one version: everything at first, later only the changes."""
        async with self._turn:
            while (version := await self._contracts.version()) != self.version:
                reload = not 0 <= self.version < version  # a restored store may have an earlier version: read it all
                changes = await (self._everything() if reload else self._contracts.changed(self.version))
                readers = [] if self._marks is None else await self._marks.read()
                if not can_sign_by_key():
                    self._cannot_sign = frozenset(await self._contracts.with_private_keys())
                if await self._contracts.version() == version:
                    self._apply(changes, reload)
                    if self._marks is not None:
                        self._marks.replace(readers)
                    self.version = version

    async def mark_readers(self, events: Sequence[Event]) -> None:
        """Mark the streams of these events for their readers, before the events are routed."""
        if self._marks is not None:
            await self._marks.mark(events)

    async def _everything(self) -> list[ContractChange]:
        queues = {row.contract_id: row.id for row in await self._contracts.queues() if row.contract_id}
        contracts = await self._contracts.all(inactive=True)
        return [ContractChange(contract.id, contract, queues.get(contract.id)) for contract in contracts]

    def _apply(self, changes: Sequence[ContractChange], reload: bool) -> None:
        """Apply changes to the caches. The index is changed in place if they are few, else rebuilt."""
        changed = [change.contract for change in changes if change.contract is not None]
        faults = {contract.id: fault for contract in changed if (fault := self._fault(contract)) is not None}
        usable = [contract for contract in changed if contract.id not in faults]
        terms = {
            contract.id: self._with_default_rate(contract.terms(self._policies), contract.address.kind)
            for contract in usable
        }
        if reload:
            self._known, self._queues, self._terms, self._private, self._faults = {}, {}, {}, {}, {}
            self._matches.clear()
        moved = [change for change in changes if change.contract != self._known.get(change.id)]
        rebuild = reload or len(moved) > len(self._known) // 4
        for id, contract, queue in changes:
            self._matches.changed(id, contract)
            for cache in (self._private, self._terms):
                cache.pop(id, None)
            if contract is None or queue is None:
                for cached in (self._known, self._queues):
                    cached.pop(id, None)
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
            how = install_command("ed25519")
            return f"it signs with a private key, which needs the package cryptography; install it with: {how}"
        return misconfiguration(contract, self._policies)

    def _note_fault(self, id: str, fault: str | None) -> None:
        before = self._faults.pop(id, None)
        if fault is None:
            if before is not None:
                log.info("contract %s is no longer misconfigured", id)
            return
        self._faults[id] = fault
        if fault != before:
            log.error("contract %s is misconfigured: %s. Its deliveries stay queued until this is fixed", id, fault)

    def faults(self) -> Mapping[str, str]:
        """The contracts that are misconfigured in this process, and why."""
        return self._faults

    def blocked_queues(self) -> list[int]:
        """The queues of misconfigured contracts: this process cannot deliver from them."""
        return [self._queues[id] for id in self._faults if id in self._queues]

    def targets(self, event: Event) -> tuple[RouteTarget, ...]:
        """The targets of one event: those of matching contracts, ordered by contract id, and its direct address."""
        match = self._matches.get(event) or self._match(event)
        if match.targets is not None and event.to is None:
            return match.targets
        found = [_target(contract, self._queues[contract.id], event) for contract in match.contracts]
        if event.to is not None:
            found.extend(_direct(event, event.to))
        return tuple(found)

    def _match(self, event: Event) -> Match:
        contracts = self._matching(event)
        targets = None
        if not any(contract.is_ordered or contract.address.text == SESSIONS for contract in contracts):
            targets = tuple(_target(contract, self._queues[contract.id], event) for contract in contracts)
        match = Match(contracts, targets)
        self._matches.put(event, match)
        return match

    def _matching(self, event: Event) -> list[Contract]:
        if not is_ping(event.source, event.type):
            return self._index.matching(event.source, event.type, event.properties, event.accepted_at_ms)
        named = self._known.get(str(event.properties.get("contract")))
        return [] if named is None or not named.active or named.is_expired(event.accepted_at_ms) else [named]

    def wants(self, source: str, type: str, properties: Mapping[str, object], now_ms: int) -> bool:
        """Whether any contract matches such an event."""
        return bool(self._index.matching(source, type, properties, now_ms))

    def is_trusted(self, contract_id: str) -> bool:
        """Whether the target was written by the operator: in the configuration or in the application's own code."""
        contract = self._known.get(contract_id)
        return contract is not None and contract.source != "api"

    def contract(self, contract_id: str) -> Contract | None:
        """A contract in the current version, active or not."""
        return self._known.get(contract_id)

    def forget_private(self) -> None:
        """Read secrets again at their next use: an expired secret does not change the version."""
        self._private = {}

    async def private(self, contract_id: str, now_ms: int = 0) -> ContractSecrets:
        """The signing secrets and headers of a contract in the current version, without expired ones."""
        known = self._private.get(contract_id)
        if known is None or (known.until_ms is not None and known.until_ms <= now_ms):
            known = self._private[contract_id] = await self._contracts.private(contract_id)
        return known

    def terms_of(self, contract_id: str | None, kind: str) -> Terms:
        """The terms of a delivery. Without a contract, or if it was removed: the defaults of the address kind."""
        known = self._terms.get(contract_id) if contract_id is not None else None
        return known or self._with_default_rate(default_terms(kind, self._policies), kind)

    def _with_default_rate(self, terms: Terms, kind: str) -> Terms:
        """The terms, with the default rate for a URL that has no rate of its own."""
        use_default = KINDS[kind].gated and self._interval_us and not terms.interval_us
        return terms._replace(interval_us=self._interval_us) if use_default else terms


class Refreshing:
    """Reads contract changes of other processes, also in a process that does not route."""

    name = "registry"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def tick(self) -> float | None:
        await self._registry.refresh()
        return None


def _target(contract: Contract, queue: int, event: Event) -> RouteTarget:
    address = contract.address
    lane = lane_key(address.kind, address.text, contract.id, _stream(event), contract.is_ordered)
    return RouteTarget(queue, address.text, address.kind, lane, _burst(address.text, event), contract.id)


def _direct(event: Event, to: str) -> list[RouteTarget]:
    try:
        address = parse_address(to)
    except BadInput as error:  # inserted by plain SQL: the event is listed as unmatched
        log.warning("event %s cannot go to its direct address: %s", event.id, error)
        return []
    if address.kind == "session" and not is_message(event):  # its session has to be found first
        lane = lane_key("handler", MESSAGES, None, to, ordered=True)
        return [RouteTarget(None, MESSAGES, "handler", lane)]
    lane = lane_key(address.kind, address.text, None, _stream(event), is_ordered_directly(address.text))
    return [RouteTarget(None, address.text, address.kind, lane, _burst(address.text, event))]


def _burst(address: str, event: Event) -> str | None:
    return burst_key(address, event.type, event.properties) if address == SESSIONS else None


def _stream(event: Event) -> str | None:
    return event.stream if event.stream != event.id else None

"""Verbs on contracts: add, list, show, enable, rotate, remove, ping, and test one on past events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.config.contract_form import read_contract
from holdfast.domain.contract import SECRET_MAX, SOURCES, Contract
from holdfast.domain.errors import BadInput, Conflict, NotFound
from holdfast.domain.event import Event
from holdfast.domain.misconfiguration import misconfiguration
from holdfast.domain.signature import check_signing, public_keys
from holdfast.domain.text import short_repr
from holdfast.ingress.accept import reject_unknown_keys
from holdfast.operations.answers.contract_statistics import ContractStatistics
from holdfast.operations.answers.contracts import (
    ContractAnswer,
    ContractList,
    ContractTrial,
    MatchedEvent,
    PropertyValues,
    RebuiltContract,
    RemovedContract,
    contract_answer,
)
from holdfast.operations.answers.encode import encoded_bytes
from holdfast.operations.answers.fields import time_or_none
from holdfast.operations.answers.page import check_limit, fit_page
from holdfast.operations.answers.ping import PingedContract
from holdfast.operations.context import LOCAL, OperationsContext
from holdfast.operations.contract_health import find_unserved, unserved_text
from holdfast.operations.contract_rebuild import EVENTS_MAX, rebuild_deliveries
from holdfast.operations.contract_statistics import statistics_of
from holdfast.operations.explain import WHY_MAX, group_misses, why_not
from holdfast.operations.ping import WAIT_MAX_S, WAIT_S, ping_contract
from holdfast.store.roles.contracts import ContractInput
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.page import PAGE_BYTES_MAX, PAGE_MAX

OVERLAP_DEFAULT_S = 24 * 3600
OVERLAP_MAX_S = 30 * 24 * 3600


class ContractVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._context = context
        self._store, self._guard, self.policies = context.store, context.guard, context.policies
        self._clock, self._served, self._owner = context.clock, context.served, context.owner

    async def add(self, body: object, *, actor: str = LOCAL) -> ContractAnswer:
        """Create a contract, or replace the one with that id. Its pending deliveries follow it to its new target."""
        contract, secret, headers = self.parse(body)
        await self._refuse_configured(contract.id)
        await self._check_address(contract)
        await self._store.contracts.put(contract, secret, headers=headers, by=self._owner.acting(actor))
        return await self.show(contract.id)

    async def show(self, id: str) -> ContractAnswer:
        """One contract; for one that signs with a private key also the public keys its receivers need."""
        contract = await self._get(id)
        (answer,) = await self._answers([contract])
        private = await self._store.contracts.private(contract.id)
        try:
            keys = public_keys(private.secrets)
        except BadInput:  # stored by a process that can read it; the error is reported where the key is to sign
            keys = []
        return replace(answer, public_keys=keys or None)

    async def find(
        self,
        *,
        property: str | None = None,
        value: str | None = None,
        source: str | None = None,
        inactive: bool = False,
        after: str | None = None,
        limit: int = PAGE_MAX,
    ) -> ContractList:
        """Active contracts ordered by id, starting after the id `after`; with `inactive` the others too.

        `property`: only those with a criterion on it. `value`: only those whose criterion accepts it.
        """
        check_limit(limit)
        if value is not None and property is None:
            raise BadInput("value= needs property=: the name of what has that value")
        if source is not None and source not in SOURCES:
            raise BadInput(f"source {short_repr(source)} is unknown; use one of {', '.join(SOURCES)}")
        contracts = [
            contract
            for contract in await (self._store.contracts.all(inactive=True) if inactive else self._active())
            if contract.id > (after or "")
            and source in (None, contract.source)
            and _has_criterion(contract, property, value)
        ]
        contracts.sort(key=lambda contract: contract.id)
        items = fit_page(await self._answers(contracts[:limit]))
        return ContractList(items, items[-1].id if len(items) < len(contracts) else None)

    async def statistics(self, id: str) -> ContractStatistics:
        """What waits for a contract now, and what became of its deliveries in the last day and in all."""
        (answer,) = await statistics_of(self._context, [(await self._get(id)).id])
        return answer

    async def statistics_of(self, ids: Sequence[str]) -> list[ContractStatistics]:
        """The statistics of several contracts, for lists."""
        return await statistics_of(self._context, ids) if ids else []

    async def enable(self, id: str, active: bool, *, actor: str = LOCAL) -> ContractAnswer:
        """Enable a contract, or disable it: then its pending deliveries are parked until it is enabled or removed."""
        contract = await self._get(id)
        if active and contract.is_expired(self._clock.now_ms()):
            expired_at = time_or_none(contract.expires_at_ms)
            raise Conflict(f"contract {short_repr(id)} expired at {expired_at}: replace it with a longer one")
        await self._store.contracts.set_active(id, active, by=self._owner.acting(actor))
        return await self.show(id)

    async def rotate(self, id: str, body: object, *, actor: str = LOCAL) -> ContractAnswer:
        """Give a contract a new signing secret; requests are signed with the old one too for the time of overlap."""
        if not isinstance(body, Mapping):
            raise BadInput(f"a rotation is a JSON object with a secret, not {short_repr(body)}")
        reject_unknown_keys(body, ("secret", "overlap_seconds"), "the rotation")
        secret, overlap = body.get("secret"), body.get("overlap_seconds", OVERLAP_DEFAULT_S)
        if not isinstance(secret, str) or not 0 < len(secret) <= SECRET_MAX:
            raise BadInput(f"the rotation has no secret: give the new one as text of 1 to {SECRET_MAX} characters")
        check_signing(secret)
        if isinstance(overlap, bool) or not isinstance(overlap, int | float) or not 0 <= overlap <= OVERLAP_MAX_S:
            raise BadInput(f"overlap_seconds must be a number from 0 to {OVERLAP_MAX_S}, not {short_repr(overlap)}")
        await self._refuse_configured(id)
        by = self._owner.acting(actor)
        if not await self._store.contracts.rotate(id, secret, round(overlap * 1000), by=by):
            raise NotFound(f"there is no contract {short_repr(id)}")
        return await self.show(id)

    async def remove(self, id: str, *, actor: str = LOCAL) -> RemovedContract:
        """Remove a contract. Its pending deliveries are dropped(contract_removed)."""
        await self._refuse_configured(id)
        if not await self._store.contracts.remove(id, by=self._owner.acting(actor)):
            raise NotFound("Contract not found")
        return RemovedContract(id)

    async def properties(self, *, after: str | None = None, limit: int = PAGE_MAX) -> PropertyValues:
        """Property names that active contracts have criteria on, starting after the name `after`, with their values.

        At most `PAGE_MAX` values are shown for one name.
        """
        check_limit(limit)
        values: dict[str, set[str]] = {}
        for contract in await self._active():
            for name, criterion in contract.properties.items():
                match = criterion.match
                values.setdefault(name, set()).update((match,) if isinstance(match, str) else match or ())
        names = sorted(name for name in values if name > (after or ""))
        page: dict[str, list[str]] = {}
        size = 0
        for name in names[:limit]:
            page[name] = sorted(values[name])[:PAGE_MAX]
            size += encoded_bytes({name: page[name]})
            if size >= PAGE_BYTES_MAX:
                break
        return PropertyValues(page, names[len(page) - 1] if len(page) < len(names) else None)

    async def test(self, body: object, limit: int = 100) -> ContractTrial:
        """Try a contract that is not active on past events, newest first, and say why it does not match the others.

        It needs neither id nor target for that; a target that is given must be allowed, as in an active contract.
        """
        named = {"id": "test", "target": {"handler": "test"}, **body} if isinstance(body, Mapping) else body
        contract = replace(self.parse(named).contract, active=True)
        await self._check_address(contract)
        events = await self._newest(check_limit(limit))
        matched = [event for event in events if not why_not(contract, event)]
        misses = group_misses(contract, events)
        return ContractTrial(
            tested=len(events),
            matched=len(matched),
            items=[MatchedEvent(event.id, event.type, event.source, event.stream) for event in matched],
            misses=misses[:WHY_MAX],
            misses_left_off=len(misses[WHY_MAX:]),
        )

    async def ping(self, id: str, wait_seconds: float = WAIT_S, *, actor: str = LOCAL) -> PingedContract:
        """Send a sample event through this contract alone, whatever its criteria, and say what came of it.

        It is attempted once and waited for; a failure is not retried and leaves no dead letter.
        """
        if not 0 < wait_seconds <= WAIT_MAX_S:
            raise BadInput(f"wait_seconds must be above 0 and at most {WAIT_MAX_S:g}, not {wait_seconds:g}")
        contract = await self._get(id)
        (state,) = await self._answers([contract])
        if not state.active:
            why = "has expired: replace it" if contract.active else f"is disabled: holdfast contracts enable {id}"
            raise Conflict(f"contract {short_repr(id)} {why}")
        if state.misconfigured is not None:
            raise Conflict(f"contract {short_repr(id)} is misconfigured: {state.misconfigured}")
        return await ping_contract(self._context, contract, wait_seconds, actor)

    async def rebuild(
        self,
        id: str,
        *,
        after: str | None = None,
        limit: int = EVENTS_MAX,
        dry_run: bool = False,
        actor: str = LOCAL,
    ) -> RebuiltContract:
        """Create deliveries of stored events that this contract should have and does not have, page by page."""
        return await rebuild_deliveries(self._context, await self._get(id), after, limit, dry_run, actor)

    async def _newest(self, count: int) -> list[Event]:
        """The newest events without their payloads, which criteria do not look at and which may be large."""
        events: list[Event] = []
        after: str | None = None
        while len(events) < count:
            page = await self._store.events.find(EventFilter(), after, count - len(events))
            events += [_without_payload(event) for event in page.items]
            after = page.next
            if after is None:
                break
        return events

    async def _get(self, id: str) -> Contract:
        contract = await self._store.contracts.get(id)
        if contract is None:
            raise NotFound(f"there is no contract {short_repr(id)}")
        return contract

    async def _active(self) -> list[Contract]:
        """Active contracts that have not expired; those that have are retired a little later by a duty."""
        now_ms = self._clock.now_ms()
        return [contract for contract in await self._store.contracts.all() if not contract.is_expired(now_ms)]

    async def _check_address(self, contract: Contract) -> None:
        """The same rule for a contract that is created and one that is tried."""
        if contract.address.kind == "https":
            await self._guard.check_target(contract.address.text)

    async def _refuse_configured(self, id: str) -> None:
        """Contracts of the configuration file are changed there: the next start would undo a change made here."""
        contract = await self._store.contracts.get(id)
        if contract is not None and contract.source == "config":
            raise Conflict(
                f"contract {short_repr(id)} stands in the configuration file: change it there, or disable it here"
            )

    def parse(self, body: object) -> ContractInput:
        return read_contract(body, self.policies, self._clock.now_ms())

    async def _answers(self, contracts: Sequence[Contract]) -> list[ContractAnswer]:
        """Each contract with whether it has a secret, and whether something it names is missing."""
        now_ms = self._clock.now_ms()
        unserved = await find_unserved(self._store.contracts, contracts, self._served(), now_ms)
        signing = await self._store.contracts.signing()

        def answer(contract: Contract) -> ContractAnswer:
            is_unserved = contract.id in unserved
            fault = misconfiguration(contract, self.policies) or (unserved_text(contract) if is_unserved else None)
            return contract_answer(
                contract,
                has_secret=contract.id in signing,
                active=contract.active and not contract.is_expired(now_ms),
                unserved=is_unserved,
                fault=fault,
            )

        return [answer(contract) for contract in contracts]


def _without_payload(e: Event) -> Event:
    return Event(
        e.n, e.id, e.stream, e.seq, e.source, e.type, e.timestamp, e.accepted_at_ms, e.properties_json, "null", e.to
    )


def _has_criterion(contract: Contract, property: str | None, value: str | None) -> bool:
    if property is None:
        return True
    criterion = {
        "source": contract.source_criterion,
        "type": contract.type_criterion,
    }.get(property) or contract.properties.get(property)
    return criterion is not None and (value is None or criterion.passes(value))

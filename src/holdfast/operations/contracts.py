"""Verbs on contracts: add, look, remove, and try one out before it is live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.config.contract_form import read_contract
from holdfast.domain.contract import SECRET_MAX, SOURCES, Contract
from holdfast.domain.errors import BadInput, Conflict, NotFound
from holdfast.domain.event import Event
from holdfast.domain.misconfiguration import misconfiguration
from holdfast.domain.signature import check_signing, public_keys
from holdfast.domain.text import short_repr
from holdfast.ingress.accept import reject_unknown_keys
from holdfast.operations.answers import Index, Listing, check_limit, contract_shape, fitting, weigh, when
from holdfast.operations.context import OperationsContext
from holdfast.operations.contract_health import find_unserved, unserved_text
from holdfast.operations.explain import group_misses, why_not
from holdfast.store.roles.contracts import Registered
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.page import PAGE_BYTES_MAX, PAGE_MAX

OVERLAP_DEFAULT_S = 24 * 3600
OVERLAP_MAX_S = 30 * 24 * 3600


class ContractVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._store, self._guard, self._policies = context.store, context.guard, context.policies
        self._clock, self._served = context.clock, context.served

    async def add(self, body: object) -> dict[str, Any]:
        """Create a contract, or replace the one of that id. Its pending deliveries follow it to its new target."""
        contract, secret, headers = self.parse(body)
        await self._refuse_foreign(contract.id)
        await self._check_address(contract)
        await self._store.contracts.put(contract, secret, headers=headers)
        return await self.show(contract.id)

    async def show(self, id: str) -> dict[str, Any]:
        return await self._shape(await self._get(id))

    async def find(
        self,
        *,
        property: str | None = None,
        value: str | None = None,
        source: str | None = None,
        inactive: bool = False,
        after: str | None = None,
        limit: int = PAGE_MAX,
    ) -> Listing:
        """Active contracts; with `property` those that have a criterion on it, with `value` those that accept it.

        By id, behind the id `after`; what `next` says of the list that is returned goes on behind it.
        """
        check_limit(limit)
        if value is not None and property is None:
            raise BadInput("value= needs property=: the name of what has that value")
        if source is not None and source not in SOURCES:
            raise BadInput(f"source {short_repr(source)} is unknown; use one of {', '.join(SOURCES)}")
        found = [
            one for one in await (self._store.contracts.all(inactive=True) if inactive else self._live())
            if one.id > (after or "") and source in (None, one.source) and _speaks_of(one, property, value)
        ]  # fmt: skip
        found.sort(key=lambda one: one.id)
        page = Listing(fitting(await self._shapes(found[:limit])))
        page.next = page[-1]["id"] if len(page) < len(found) else None
        return page

    async def enable(self, id: str, active: bool) -> dict[str, Any]:
        """Enable a contract, or disable it: then what waits for it is parked until it is enabled or removed."""
        contract = await self._get(id)
        if active and contract.is_over(self._clock.now_ms()):
            raise Conflict(
                f"contract {short_repr(id)} expired at {when(contract.expires_at_ms)}: replace it with a longer one"
            )
        await self._store.contracts.set_active(id, active)
        return await self.show(id)

    async def rotate(self, id: str, body: object) -> dict[str, Any]:
        """Give a contract a new signing secret; the old one signs beside it for the time of overlap."""
        if not isinstance(body, Mapping):
            raise BadInput(f"a rotation is a JSON object with a secret, not {short_repr(body)}")
        reject_unknown_keys(body, ("secret", "overlap_seconds"), "the rotation")
        secret, overlap = body.get("secret"), body.get("overlap_seconds", OVERLAP_DEFAULT_S)
        if not isinstance(secret, str) or not 0 < len(secret) <= SECRET_MAX:
            raise BadInput(f"the rotation has no secret: give the new one as text of 1 to {SECRET_MAX} characters")
        check_signing(secret)
        if isinstance(overlap, bool) or not isinstance(overlap, int | float) or not 0 <= overlap <= OVERLAP_MAX_S:
            raise BadInput(f"overlap_seconds must be a number from 0 to {OVERLAP_MAX_S}, not {short_repr(overlap)}")
        await self._refuse_foreign(id)
        if not await self._store.contracts.rotate(id, secret, round(overlap * 1000)):
            raise NotFound(f"there is no contract {short_repr(id)}")
        return await self.show(id)

    async def remove(self, id: str) -> dict[str, Any]:
        await self._refuse_foreign(id)
        if not await self._store.contracts.remove(id):
            raise NotFound("Contract not found")
        return {"deactivated": id}

    async def properties(self, *, after: str | None = None, limit: int = PAGE_MAX) -> Index:
        """The property names active contracts ask for, behind the name `after`, each with the values they name.

        Of more than `PAGE_MAX` values of one name the first are told.
        """
        check_limit(limit)
        union: dict[str, set[str]] = {}
        for contract in await self._live():
            for name, criterion in contract.properties.items():
                match = criterion.match
                union.setdefault(name, set()).update((match,) if isinstance(match, str) else match or ())
        names = sorted(name for name in union if name > (after or ""))
        page, size = Index(), 0
        for name in names[:limit]:
            page[name] = sorted(union[name])[:PAGE_MAX]
            size += weigh({name: page[name]})
            if size >= PAGE_BYTES_MAX:
                break
        page.next = names[len(page) - 1] if len(page) < len(names) else None
        return page

    async def test(self, body: object, limit: int = 100) -> dict[str, Any]:
        """Run a contract that is not live against past events, newest first; and say why it misses the others.

        It needs neither a name nor a target for that; one that it has must be allowed, as in a live one.
        """
        named = {"id": "test", "target": {"handler": "test"}, **body} if isinstance(body, Mapping) else body
        contract = replace(self.parse(named).contract, active=True)
        await self._check_address(contract)
        events = await self._newest(check_limit(limit))
        matched = [e for e in events if not why_not(contract, e)]
        return {
            "tested": len(events),
            "matched": len(matched),
            "items": [{"id": e.id, "type": e.type, "source": e.source, "stream": e.stream} for e in matched],
            **group_misses(contract, events),
        }

    async def _newest(self, count: int) -> list[Event]:
        """So many events without their payloads, which contracts do not ask for and which may be heavy."""
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

    async def _live(self) -> list[Contract]:
        """Active ones whose time is not over: the sweep that retires those comes a little later."""
        now_ms = self._clock.now_ms()
        return [one for one in await self._store.contracts.all() if not one.is_over(now_ms)]

    async def _check_address(self, contract: Contract) -> None:
        """The same rule for one that is made and one that is tried."""
        if contract.address.kind == "https":
            await self._guard.check_target(contract.address.text)

    async def _refuse_foreign(self, id: str) -> None:
        """The configuration file is the truth about its own contracts: the next start would undo what we did."""
        known = await self._store.contracts.get(id)
        if known is not None and known.source == "config":
            raise Conflict(
                f"contract {short_repr(id)} stands in the configuration file: change it there, or disable it here"
            )

    def parse(self, body: object) -> Registered:
        return read_contract(body, self._policies, self._clock.now_ms())

    async def _shape(self, contract: Contract) -> dict[str, Any]:
        """One contract's answer; for a contract that signs by private key also what its receivers verify with."""
        (shape,) = await self._shapes([contract])
        private = await self._store.contracts.private(contract.id)
        try:
            keys = public_keys(private.secrets)
        except BadInput:  # kept by a process that could read it: that we cannot is told where it is to sign
            keys = []
        return {**shape, "public_keys": keys} if keys else shape

    async def _shapes(self, contracts: Sequence[Contract]) -> list[dict[str, Any]]:
        """Each with whether it signs, and whether something that it names is missing."""
        now_ms = self._clock.now_ms()
        unserved = await find_unserved(self._store.contracts, contracts, self._served(), now_ms)
        signing = await self._store.contracts.signing()

        def shape(contract: Contract) -> dict[str, Any]:
            alone = contract.id in unserved
            fault = misconfiguration(contract, self._policies) or (unserved_text(contract) if alone else None)
            return contract_shape(contract, contract.id in signing) | {
                "active": contract.active and not contract.is_over(now_ms),
                "unserved": alone,
                "retired": contract.retired,
                "misconfigured": fault,
            }

        return [shape(one) for one in contracts]


def _without_payload(e: Event) -> Event:
    return Event(
        e.n, e.id, e.stream, e.seq, e.source, e.type, e.timestamp, e.accepted_at_ms, e.properties_json, "null", e.to
    )


def _speaks_of(contract: Contract, property: str | None, value: str | None) -> bool:
    if property is None:
        return True
    criterion = {
        "source": contract.source_criterion,
        "type": contract.type_criterion,
    }.get(property) or contract.properties.get(property)
    return criterion is not None and (value is None or criterion.passes(value))

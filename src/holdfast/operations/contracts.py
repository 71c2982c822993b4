"""Verbs on contracts: add, look, remove, and try one out before it is live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.domain.contract import (
    Contract,
    check_contract_id,
    parse_criteria,
    parse_criterion,
    parse_target,
)
from holdfast.domain.errors import BadInput, NotFound
from holdfast.domain.event import show
from holdfast.domain.retry import Policy
from holdfast.domain.signature import secret_key
from holdfast.egress.guard import Guard
from holdfast.ingress.accept import refuse_unknown
from holdfast.operations.shapes import check_limit, contract_shape
from holdfast.ports import Clock
from holdfast.store.base import EventFilter, Store

FIELDS = (
    "id", "target", "source_criterion", "type_criterion", "properties", "ttl_seconds",
    "policy", "attempts", "ordered", "timeout", "concurrency", "active",
)  # fmt: skip
TTL_MAX_S = 10 * 365 * 86400


class ContractVerbs:
    def __init__(self, store: Store, guard: Guard, policies: Mapping[str, Policy], clock: Clock) -> None:
        self._store, self._guard, self._policies, self._clock = store, guard, policies, clock

    async def add(self, body: object) -> dict[str, Any]:
        """Create a contract, or replace the one of that id. Its pending deliveries follow it to its new target."""
        contract, secret = self.parse(body)
        if contract.address.kind == "session":
            raise BadInput("targets of kind session are not delivered by this version; use url or handler")
        if contract.address.kind == "https":
            await self._guard.check_target(contract.address.text)
        await self._store.contracts.put(contract, secret)
        return contract_shape(contract)

    async def show(self, id: str) -> dict[str, Any]:
        contract = await self._store.contracts.get(id)
        if contract is None:
            raise NotFound(f"there is no contract {show(id)}")
        return contract_shape(contract)

    async def find(self, *, property: str | None = None, value: str | None = None) -> list[dict[str, Any]]:
        """Active contracts; with `property` those that have a criterion on it, with `value` those that accept it."""
        if value is not None and property is None:
            raise BadInput("value= needs property=: the name of what has that value")
        found = await self._store.contracts.all()
        return [contract_shape(contract) for contract in found if _speaks_of(contract, property, value)]

    async def remove(self, id: str) -> dict[str, Any]:
        if not await self._store.contracts.remove(id):
            raise NotFound("Contract not found")
        return {"deactivated": id}

    async def properties(self) -> dict[str, list[str]]:
        """Every property name active contracts ask for, with the values they name."""
        union: dict[str, set[str]] = {}
        for contract in await self._store.contracts.all():
            for name, criterion in contract.properties.items():
                match = criterion.match
                union.setdefault(name, set()).update((match,) if isinstance(match, str) else match or ())
        return {name: sorted(values) for name, values in sorted(union.items())}

    async def test(self, body: object, limit: int = 100) -> dict[str, Any]:
        """Run a contract that is not live against past events, newest first."""
        contract, _ = self.parse(body)
        page = await self._store.events.find(EventFilter(), None, check_limit(limit))
        matched = [e for e in page.items if contract.matches(e.source, e.type, e.properties, e.accepted_at_ms)]
        return {
            "tested": len(page.items),
            "matched": len(matched),
            "items": [{"id": e.id, "type": e.type, "source": e.source, "stream": e.stream} for e in matched],
        }

    def parse(self, body: object) -> tuple[Contract, str | None]:
        """A contract from the seed's JSON shape; a clear sentence for anything that is not right."""
        if not isinstance(body, Mapping):
            raise BadInput(f"a contract is a JSON object with id and target, not {show(body)}")
        refuse_unknown(body, FIELDS, "the contract")
        for name in ("id", "target"):
            if body.get(name) is None:
                raise BadInput(f"the contract has no {name}")
        address, secret = parse_target(body["target"])
        if secret is not None:
            secret_key(secret)
        now_ms = self._clock.now_ms()
        ttl = _number(body, "ttl_seconds", most=TTL_MAX_S)
        return Contract(
            id=check_contract_id(body["id"]),
            address=address,
            source_criterion=_criterion(body, "source_criterion"),
            type_criterion=_criterion(body, "type_criterion"),
            properties=parse_criteria(body.get("properties") or {}, "properties"),
            source="api",
            active=_flag(body, "active") is not False,
            created_at_ms=now_ms,
            expires_at_ms=None if ttl is None else now_ms + round(ttl * 1000),
            policy=self._policy(body.get("policy")),
            attempts=_whole(body, "attempts", most=1000),
            ordered=_flag(body, "ordered"),
            timeout_s=_number(body, "timeout", most=3600),
            concurrency=_whole(body, "concurrency", most=1000),
        ), secret

    def _policy(self, name: object) -> str | None:
        if name is not None and (not isinstance(name, str) or name not in self._policies):
            raise BadInput(f"policy {show(name)} is unknown; use one of {', '.join(self._policies)}")
        return None if name is None else str(name)


def _speaks_of(contract: Contract, property: str | None, value: str | None) -> bool:
    if property is None:
        return True
    criterion = {
        "source": contract.source_criterion,
        "type": contract.type_criterion,
    }.get(property) or contract.properties.get(property)
    return criterion is not None and (value is None or criterion.passes(value))


def _criterion(body: Mapping[str, Any], name: str) -> Any:
    return None if body.get(name) is None else parse_criterion(body[name], name)


def _flag(body: Mapping[str, Any], name: str) -> bool | None:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadInput(f"{name} must be true or false, not {show(value)}")
    return value


def _number(body: Mapping[str, Any], name: str, most: float) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput(f"{name} must be a number, not {show(value)}")
    if not 0 < value <= most:
        raise BadInput(f"{name} must be positive and at most {most:g}, not {show(value)}")
    return float(value)


def _whole(body: Mapping[str, Any], name: str, most: int) -> int | None:
    value = body.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most):
        raise BadInput(f"{name} must be a whole number from 1 to {most}, not {show(value)}")
    return value

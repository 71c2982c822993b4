"""The harness of the store suite: a store, its owner, a manual clock, and a method for each common step."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pytest

from holdfast.domain.address import KINDS, parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.delivery import Claim, Delivered, Outcome, Settlement, settle
from holdfast.domain.event import Appended, Event, new_event
from holdfast.domain.lane import SESSIONS, burst_key, lane_key
from holdfast.domain.receipt import ChainFault, Link
from holdfast.domain.retry import POLICIES, Policy
from holdfast.ledger.verifier import verify_receipts
from holdfast.ports import Chance, Clock
from holdfast.store.roles.deliveries import Claimed, ClaimRequest, Served
from holdfast.store.roles.maintenance import Retention
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.routing import Plan, RouteTarget
from holdfast.store.roles.store import Feature, Store
from holdfast.testing.clock import ManualClock, SeededChance

EVERYTHING = DeliveryFilter()
POLICY = POLICIES["webhook"]


class OpenStore(Protocol):
    """Provided by the author of a store: open the data called `name`, as its keeper if `keep`."""

    async def __call__(self, name: str, clock: Clock, chance: Chance, keep: bool) -> Store: ...


class Harness:
    """One store under test. `crash` ends a process as SIGKILL would: nothing is retired, released or settled."""

    def __init__(self, open_store: OpenStore, name: str = "store") -> None:
        self._open, self._name, self._opened = open_store, name, list[Store]()
        self.clock, self.chance = ManualClock(), SeededChance(1)
        self.store: Store
        self.owner: Owner

    @classmethod
    async def start(cls, open_store: OpenStore, name: str = "store") -> Harness:
        harness = cls(open_store, name)
        await harness.reopen()
        return harness

    async def another(self, keep: bool = False) -> Store:
        """Open the same data again, as another process would."""
        store = await self._open(self._name, self.clock, self.chance, keep)
        self._opened.append(store)
        return store

    async def reopen(self) -> None:
        self.store = await self.another(keep=True)
        self.owner = await self.store.owners.register()

    async def crash(self) -> None:
        await self.store.close()
        await self.reopen()
        await self.store.deliveries.reclaim()

    async def close(self) -> None:
        for store in self._opened:
            await store.close()

    def needs(self, feature: Feature) -> None:
        if feature not in self.store.features:
            pytest.skip(f"this store does not declare {feature}")

    # Events and contracts

    async def contract(self, id: str = "c", to: str = "handler:h", secret: str | None = None, **more: Any) -> Contract:
        contract = Contract(id=id, address=parse_address(to), **more)
        await self.store.contracts.put(contract, secret)
        return contract

    async def emit(self, type: str = "t", payload: Any = None, **more: Any) -> Appended:
        return (await self.store.events.append([new_event(type, payload, **more)]))[0]

    async def route(self) -> int:
        """Route all events, as the router would. Returns their number."""
        routed = 0
        while True:
            async with self.store.routing.batch(500) as batch:
                if not batch.events:
                    return routed
                plans = [await self.plan(event, batch.due_at_ms) for event in batch.events]
                assert await batch.commit(plans, self.owner)
                routed += len(batch.events)

    async def plan(self, event: Event, due_at_ms: Mapping[int, int]) -> Plan:
        targets = []
        stream = None if event.stream == event.id else event.stream
        queues = {queue.contract_id: queue.id for queue in await self.store.contracts.queues() if queue.contract_id}
        for contract in await self.store.contracts.all():
            if contract.matches(event.source, event.type, event.properties, event.accepted_at_ms):
                address = contract.address
                lane = lane_key(address.kind, address.text, contract.id, stream, contract.is_ordered)
                burst = burst_key(address.text, event.type, event.properties)
                targets.append(RouteTarget(queues[contract.id], address.text, address.kind, lane, burst))
        if event.to is not None:
            address = parse_address(event.to)
            lane = lane_key(address.kind, address.text, None, stream, ordered=address.text == SESSIONS)
            burst = burst_key(address.text, event.type, event.properties)
            targets.append(RouteTarget(None, address.text, address.kind, lane, burst))
        return Plan(event.n, tuple(targets), due_at_ms.get(event.n, 0))

    async def send(self, type: str = "t", payload: Any = None, **more: Any) -> int:
        """Emit an event that one contract matches, and route it. Returns the id of its delivery."""
        appended = await self.emit(type, payload, **more)
        await self.route()
        return (await self.rows(event=appended.id))[0].id

    # Deliveries

    async def claim(self, limit: int = 100, **more: Any) -> list[Claim]:
        return (await self.ask(limit, **more)).claims

    async def ask(
        self,
        limit: int = 100,
        *,
        kinds: Iterable[str] = KINDS,
        addresses: Sequence[str] = (),
        capacity: Mapping[int, int] | None = None,
        capacity_default: int = 1000,
        after_queue: int = 0,
        suspects: bool = True,
        lease_s: float = 30.0,
        owner: Owner | None = None,
    ) -> Claimed:
        request = ClaimRequest(
            owner=(owner or self.owner).id,
            served=Served(frozenset(kinds), frozenset(addresses)),
            limit=limit,
            lease_ms=dict.fromkeys(KINDS, round(lease_s * 1000)),
            capacity=capacity or {},
            capacity_default=dict.fromkeys(KINDS, capacity_default),
            after_queue=after_queue,
            suspects=suspects,
        )
        return await self.store.deliveries.claim(request)

    async def take(self, **more: Any) -> Claim:
        """Claim the only claimable delivery."""
        claims = await self.claim(**more)
        assert len(claims) == 1, f"one claimable delivery was expected, not {len(claims)}"
        return claims[0]

    async def settle(self, claim: Claim, outcome: Outcome, policy: Policy = POLICY) -> bool:
        """Settle one claim. Returns whether the lease was still valid."""
        return not await self.settle_all([(claim, outcome)], policy)

    async def settle_all(self, ends: Sequence[tuple[Claim, Outcome]], policy: Policy = POLICY) -> set[int]:
        """Settle several claims in one transaction. Returns the ids whose lease was lost."""
        settlements = [self.settlement(claim, outcome, policy) for claim, outcome in ends]
        return await self.store.deliveries.settle(self.owner, settlements)

    def settlement(self, claim: Claim, outcome: Outcome, policy: Policy = POLICY) -> Settlement:
        now_ms = self.clock.now_ms()
        return Settlement(
            claim,
            settle(claim.delivery.attempts, outcome, policy, now_ms, chance=0.0),
            effects=outcome.effects if isinstance(outcome, Delivered) else (),
            detail=getattr(outcome, "detail", None),
            started_at_ms=now_ms,
            outcome=type(outcome).__name__.lower(),
        )

    async def end(self, outcome: Outcome, **more: Any) -> int:
        """Claim the only claimable delivery and settle it. Returns its id."""
        claim = await self.take(**more)
        assert await self.settle(claim, outcome)
        return claim.delivery.id

    # Maintenance

    async def prune(self, *, delivered_s: float = 1e9, inbound_s: float = 1e9, dead_s: float = 1e9,
                    dedup_s: float = 1e9, sessions_s: float = 1e9, streams_s: float = 1e9,
                    limit: int = 100_000) -> dict[str, int]:  # fmt: skip
        given = (delivered_s, inbound_s, dead_s, dedup_s, sessions_s, streams_s)
        delivered, inbound, dead, dedup, sessions, streams = (round(seconds * 1000) for seconds in given)
        retention = Retention(delivered, inbound, dead, dedup, sessions, streams)
        return await self.store.maintenance.prune(retention, limit, self.owner.acting("retention"))

    async def forget_keys(self) -> None:
        self.clock.advance(1)
        await self.prune(dedup_s=0)

    # Operator views

    async def row(self, id: int) -> DeliveryRow:
        row = await self.store.operator.delivery(id)
        assert row is not None, f"there is no delivery {id}"
        return row

    async def rows(self, **wanted: Any) -> list[DeliveryRow]:
        """Every delivery that matches the filter, oldest first."""
        found: list[DeliveryRow] = []
        after: str | None = None
        while True:
            page = await self.store.operator.deliveries(replace(EVERYTHING, **wanted), after, 200)
            found += page.items
            if page.next is None:
                return found[::-1]
            after = page.next

    async def links(self) -> list[Link]:
        return [link async for page in self.store.receipts.every() for link in page]

    async def faults(self) -> list[ChainFault]:
        """What is wrong with the receipts, also in comparison with the rows. `contract` above writes no receipt."""
        found = (await verify_receipts(self.store.receipts, rows=True)).faults
        return [fault for fault in found if not re.fullmatch("contract .* has no receipt", fault.message)]


class StoreSuite:
    """Base of all suites: a new harness for each test."""

    @pytest.fixture
    async def harness(self, open_store: OpenStore) -> AsyncIterator[Harness]:
        harness = await Harness.start(open_store)
        yield harness
        await harness.close()

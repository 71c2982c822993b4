"""Events about Holdfast itself, which contracts can subscribe to like any other.

Their source is `holdfast`. The delivery of such an event produces no further system event, so there are no loops.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from holdfast.domain.address import without_tokens
from holdfast.domain.cursor import Cursor
from holdfast.domain.delivery import Claim, Transition
from holdfast.domain.event import Event, NewEvent, iso_time, new_event
from holdfast.domain.json_value import Json, JsonObject
from holdfast.egress.gatekeeper import BreakerChange
from holdfast.operations.answers.encode import encode
from holdfast.operations.answers.fleet import FleetComponentAnswer
from holdfast.ports import Clock
from holdfast.routing.registry import Registry
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.store import Store

SOURCE = "holdfast"
DAY_MS = 86_400_000
EXPIRED_NAMED = 20

log = logging.getLogger("holdfast.system_events")


class SystemEvents:
    """Appends system events and disables contracts whose receiver is gone or keeps failing.

    `disable_after_ms`: how long an address may fail before its contracts are disabled; 0 means never.
    """

    def __init__(self, store: Store, registry: Registry, clock: Clock, disable_after_ms: int = 0) -> None:
        self._store, self._registry, self._clock = store, registry, clock
        self._disable_after_ms = disable_after_ms
        self.by: Actor | None = None
        """For the receipts of disabled contracts: set when the process has an owner id."""

    def delivery_dead(self, claim: Claim, after: Transition) -> NewEvent | None:
        """`holdfast.delivery.dead`, to be appended in the transaction that settles the delivery.

        None if no contract matches it.
        """
        event, delivery = claim.event, claim.delivery
        if event.source == SOURCE:
            return None
        properties = {
            "delivery": delivery.id,
            "event_type": event.type,
            "event_source": event.source,
            "contract": delivery.contract_id,
            "reason": after.reason,
        }
        if not self._registry.wants(SOURCE, "holdfast.delivery.dead", properties, self._clock.now_ms()):
            return None
        payload = {
            "delivery": delivery.id,
            "event": event.id,
            "event_type": event.type,
            "stream": event.stream,
            "address": without_tokens(delivery.address),
            "contract": delivery.contract_id,
            "reason": after.reason,
            "attempts": after.attempts,
            "error": after.error,
        }
        return new_event("holdfast.delivery.dead", payload, source=SOURCE, properties=properties)

    async def breaker_changed(self, change: BreakerChange) -> None:
        """Append `holdfast.breaker.opened` or `.closed`; disable the contracts of an address that failed too long."""
        gate = change.gate
        address = without_tokens(gate.address)
        if not change.opened or gate.trips == 1:
            type = "holdfast.breaker.opened" if change.opened else "holdfast.breaker.closed"
            payload: JsonObject = {"address": address, "failing_since": iso_time(gate.failing_since_ms)}
            await self._append(type, payload, {"address": address[:255]})
        failing_ms = self._clock.now_ms() - gate.failing_since_ms
        if change.opened and 0 < self._disable_after_ms <= failing_ms:
            for contract in await self._store.contracts.all():
                if contract.address.text == gate.address:
                    days = failing_ms / DAY_MS
                    await self._disable(contract.id, "failing", f"its receiver has failed for {days:.1f} days")

    async def contract_gone(self, contract_id: str) -> None:
        """Disable a contract whose receiver answered 410 Gone."""
        await self._disable(contract_id, "gone", "the receiver answered 410 Gone")

    async def fleet_changed(self, component: FleetComponentAnswer) -> None:
        """Append `holdfast.fleet.alert` or `holdfast.fleet.recovered`."""
        type = "holdfast.fleet.recovered" if component.state == "ok" else "holdfast.fleet.alert"
        payload: JsonObject = encode(component)
        await self._append(type, payload, {"component": component.name, "state": component.state})

    async def reader_stuck(self, reader: str, stream: str | None, position: int | None, error: str) -> None:
        """Append `holdfast.reader.stuck`: a reader does not get ahead, in one stream or in all."""
        properties = {"reader": reader} if stream is None else {"reader": reader, "stream": stream}
        payload: JsonObject = {"reader": reader, "stream": stream, "position": position, "error": error}
        await self._append("holdfast.reader.stuck", payload, properties)

    async def event_skipped(self, reader: str, event: Event, error: str) -> None:
        """Append `holdfast.event.skipped`: a sink refused an event for good, and its reader continued without it."""
        payload: JsonObject = {
            "reader": reader,
            "event": event.id,
            "stream": event.stream,
            "seq": event.seq,
            "error": error,
        }
        await self._append("holdfast.event.skipped", payload, {"reader": reader, "stream": event.stream})

    async def cursors_expired(self, reader: str, cursors: Sequence[Cursor]) -> None:
        """Append `holdfast.cursor.expired`: retention no longer waits for a reader in these streams."""
        named: list[Json] = [{"stream": one.stream, "position": one.position} for one in cursors[:EXPIRED_NAMED]]
        payload: JsonObject = {"reader": reader, "count": len(cursors), "cursors": named}
        await self._append("holdfast.cursor.expired", payload, {"reader": reader})

    async def _disable(self, contract_id: str, why: str, explanation: str) -> None:
        """Disable a contract, which parks its pending deliveries, and append `holdfast.contract.disabled`."""
        if await self._store.contracts.set_active(contract_id, False, by=self.by):
            log.warning("contract %s is disabled: %s", contract_id, explanation)
            properties = {"contract": contract_id, "why": why}
            payload: JsonObject = {"contract": contract_id, "why": explanation}
            await self._append("holdfast.contract.disabled", payload, properties)

    async def _append(self, type: str, payload: JsonObject, properties: Mapping[str, Json]) -> None:
        await self._store.events.append([new_event(type, payload, source=SOURCE, properties=properties)])

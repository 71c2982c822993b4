"""Events about Holdfast itself, which contracts can subscribe to like any other.

Their source is `holdfast`. The delivery of such an event produces no further system event, so there are no loops.
"""

from __future__ import annotations

import logging

from holdfast.domain.address import without_tokens
from holdfast.domain.delivery import Claim, Transition
from holdfast.domain.event import NewEvent, iso_time, new_event
from holdfast.egress.gatekeeper import BreakerChange
from holdfast.ports import Clock
from holdfast.routing.registry import Registry
from holdfast.store.roles.store import Store

SOURCE = "holdfast"
DAY_MS = 86_400_000

log = logging.getLogger("holdfast.system_events")


class SystemEvents:
    """Appends system events and disables contracts whose receiver is gone or keeps failing.

    `disable_after_ms`: how long an address may fail before its contracts are disabled; 0 means never.
    """

    def __init__(self, store: Store, registry: Registry, clock: Clock, disable_after_ms: int = 0) -> None:
        self._store, self._registry, self._clock = store, registry, clock
        self._disable_after_ms = disable_after_ms

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
            payload = {"address": address, "failing_since": iso_time(gate.failing_since_ms)}
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

    async def _disable(self, contract_id: str, why: str, explanation: str) -> None:
        """Disable a contract, which parks its pending deliveries, and append `holdfast.contract.disabled`."""
        if await self._store.contracts.set_active(contract_id, False):
            log.warning("contract %s is disabled: %s", contract_id, explanation)
            properties = {"contract": contract_id, "why": why}
            payload = {"contract": contract_id, "why": explanation}
            await self._append("holdfast.contract.disabled", payload, properties)

    async def _append(self, type: str, payload: dict[str, str], properties: dict[str, str]) -> None:
        await self._store.events.append([new_event(type, payload, source=SOURCE, properties=properties)])

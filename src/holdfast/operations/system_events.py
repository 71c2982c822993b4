"""News of the house itself, as ordinary events that contracts can subscribe to.

Of what happens to such news no news is made, so that nothing goes in circles.
"""

from __future__ import annotations

import logging

from holdfast.domain.address import without_tokens
from holdfast.domain.delivery import Claim, Transition
from holdfast.domain.event import NewEvent, iso_time, new_event
from holdfast.egress.gatekeeper import BreakerNews
from holdfast.ports import Clock
from holdfast.routing.registry import Registry
from holdfast.store.base import Store

SOURCE = "holdfast"

log = logging.getLogger("holdfast.news")


class Newsroom:
    """`disable_after_ms`: how long an address may fail before its contracts are disabled; 0: for ever."""

    def __init__(self, store: Store, registry: Registry, clock: Clock, disable_after_ms: int = 0) -> None:
        self._store, self._registry, self._clock = store, registry, clock
        self._disable_after_ms = disable_after_ms

    def obituary(self, claim: Claim, after: Transition) -> NewEvent | None:
        """`holdfast.delivery.dead`, for the transaction in which it dies; only where somebody wants to know."""
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

    async def breaker(self, news: BreakerNews) -> None:
        """`holdfast.breaker.opened` and `.closed`; and the end of patience with an address that has failed for days."""
        gate = news.gate
        address = without_tokens(gate.address)
        if not news.opened or gate.trips == 1:
            type = "holdfast.breaker.opened" if news.opened else "holdfast.breaker.closed"
            payload = {"address": address, "failing_since": iso_time(gate.failing_since_ms)}
            await self._append(type, payload, {"address": address[:255]})
        failing_ms = self._clock.now_ms() - gate.failing_since_ms
        if news.opened and 0 < self._disable_after_ms <= failing_ms:
            for contract in await self._store.contracts.all():
                if contract.address.text == gate.address:
                    days = failing_ms / 86_400_000
                    await self.disable(contract.id, "failing", f"its receiver has failed for {days:.1f} days")

    async def gone(self, contract_id: str) -> None:
        await self.disable(contract_id, "gone", "the receiver answered 410 Gone")

    async def disable(self, contract_id: str, why: str, said: str) -> None:
        """Disable a contract, which parks what waits for it, and say so."""
        if await self._store.contracts.set_active(contract_id, False):
            log.warning("contract %s is disabled: %s", contract_id, said)
            properties = {"contract": contract_id, "why": why}
            await self._append("holdfast.contract.disabled", {"contract": contract_id, "why": said}, properties)

    async def _append(self, type: str, payload: dict[str, str], properties: dict[str, str]) -> None:
        await self._store.events.append([new_event(type, payload, source=SOURCE, properties=properties)])

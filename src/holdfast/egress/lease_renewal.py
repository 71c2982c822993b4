"""Lease renewal: keeps the leases of held claims valid while their attempts run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.domain.address import KINDS
from holdfast.domain.retry import POLICIES
from holdfast.egress.held_claim import HeldClaim
from holdfast.ports import Clock
from holdfast.store.roles.deliveries import Deliveries

DELAY_MIN_S, DELAY_MAX_S = 1.0, 7.5


def lease_times_ms() -> dict[str, int]:
    """How long a lease lasts, by address kind."""
    return {kind.name: round(POLICIES[kind.policy].lease_s * 1000) for kind in KINDS.values()}


class LeaseRenewal:
    """Renews leases once a quarter of their duration has passed."""

    name = "renewal"

    def __init__(
        self, held: Mapping[int, HeldClaim], deliveries: Deliveries, clock: Clock, lease_ms: Mapping[str, int]
    ) -> None:
        self._held, self._deliveries, self._clock, self._lease_ms = held, deliveries, clock, lease_ms
        self.wake: Callable[[], None] = lambda: None

    async def tick(self) -> float | None:
        """Renew what is due, cancel what was lost; the seconds until the next renewal."""
        for kind, lease_ms in self._lease_ms.items():
            now_ms = self._clock.boot_ms()
            due = {id: held for id, held in self._held.items() if held.kind == kind and held.renew_at_ms <= now_ms}
            if due:
                until_ms = now_ms + lease_ms
                for id in await self._deliveries.renew([held.claim for held in due.values()], lease_ms):
                    due[id].lose()  # not `self._held[id]`: that may have been claimed again meanwhile
                for held in due.values():
                    held.lease_until_ms = until_ms
        if not self._held:
            return None
        next_ms = min(held.renew_at_ms for held in self._held.values())
        return max(DELAY_MIN_S, min(DELAY_MAX_S, (next_ms - self._clock.boot_ms()) / 1000))

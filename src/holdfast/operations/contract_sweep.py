"""Looking after contracts: those whose time is over are retired, and a foreign configuration in force is noticed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from holdfast.domain.contract import Contract
from holdfast.ports import Clock
from holdfast.store.base import Contracts, Routing

POLL_S = 60.0
EXPIRE_EVERY_MS = 60 * 1000

log = logging.getLogger("holdfast.contracts")


class ContractSweep:
    """`digest` names the configuration this process adopted; None: it has none to defend.

    `forget` drops what is remembered of secrets: the time of one that was rotated out may be over.
    """

    name = "contracts"

    def __init__(
        self,
        contracts: Contracts,
        routing: Routing,
        clock: Clock,
        digest: str | None,
        forget: Callable[[], None] = lambda: None,
        application: str | None = None,
        registered: Sequence[Contract] = (),
    ) -> None:
        self._application, self._registered = application, registered
        self._contracts, self._routing, self._clock, self._digest = contracts, routing, clock, digest
        self._forget = forget
        self._expired_ms = clock.boot_ms()
        self.warning: str | None = None

    async def tick(self) -> float | None:
        await self._look_at_digest()
        self._forget()
        await self._retire_gone()
        now_ms = self._clock.boot_ms()
        if now_ms - self._expired_ms >= EXPIRE_EVERY_MS and await self._retire():
            self._expired_ms = now_ms
        return POLL_S

    async def _retire_gone(self) -> None:
        """Retire what this application registered earlier, once no process of an older version serves it any more."""
        if self._application is None:
            return
        known = await self._contracts.all(inactive=True)
        ours = {one.id for one in self._registered}
        gone = [one for one in known if one.application == self._application and not one.retired and one.id not in ours]
        if gone:
            for id in await self._contracts.register(self._application, self._registered, alone=False):
                log.warning("contract %s is retired: the application %s no longer registers it", id, self._application)

    async def _retire(self) -> bool:
        """Only when nothing waits to be routed: an event accepted in time still belongs to the contract."""
        if await self._routing.backlog():
            return False
        now_ms = self._clock.now_ms()
        for contract in await self._contracts.all():
            if contract.expires_at_ms is not None and contract.expires_at_ms + EXPIRE_EVERY_MS <= now_ms:
                await self._contracts.retire(contract.id)
                log.info("contract %s has expired", contract.id)
        return True

    async def _look_at_digest(self) -> None:
        if self._digest is None:
            return
        foreign = await self._contracts.digest() != self._digest
        if foreign and self.warning is None:
            self.warning = (
                "a daemon that started later has another configuration file: its subscriptions are in force, not ours"
            )
            log.warning("%s", self.warning)
        elif not foreign:
            self.warning = None

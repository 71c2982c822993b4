"""Retires expired contracts, and warns if the configuration of another daemon is in force."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from holdfast.domain.contract import Contract
from holdfast.operations.registration import register
from holdfast.ports import Clock
from holdfast.store.roles.contracts import Contracts
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.routing import Routing

POLL_S = 60.0
EXPIRE_EVERY_MS = 60 * 1000

log = logging.getLogger("holdfast.contracts")


class ContractSweep:
    """`digest` names the configuration that this process applied, None if it has none.

    `forget` empties the cache of secrets: the overlap of a rotated one may have ended.
    """

    name = "contracts"

    def __init__(
        self,
        contracts: Contracts,
        routing: Routing,
        clock: Clock,
        digest: str | None,
        forget: Callable[[], None] = lambda: None,
        modules: Callable[[], frozenset[str]] = frozenset,
        registered: Sequence[Contract] = (),
        by: Actor | None = None,
    ) -> None:
        self._by = by
        self._modules, self._registered = modules, registered
        self._contracts, self._routing, self._clock, self.digest = contracts, routing, clock, digest
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
        """Retire contracts that the code here no longer registers, once no process of an older version serves them."""
        modules, ours = self._modules(), {one.id for one in self._registered}
        known = await self._contracts.all(inactive=True)
        if any(one.registered_by in modules and not one.retired and one.id not in ours for one in known):
            await register(self._contracts, modules, self._registered, by=self._by)

    async def _retire(self) -> bool:
        """Retire expired contracts, unless events wait to be routed: one accepted in time still matches."""
        if await self._routing.backlog():
            return False
        now_ms = self._clock.now_ms()
        for contract in await self._contracts.all():
            if contract.expires_at_ms is not None and contract.expires_at_ms + EXPIRE_EVERY_MS <= now_ms:
                await self._contracts.retire(contract.id, by=self._by)
                log.info("contract %s has expired", contract.id)
        return True

    async def _look_at_digest(self) -> None:
        if self.digest is None:
            return
        foreign = await self._contracts.digest() != self.digest
        if foreign and self.warning is None:
            self.warning = (
                "a daemon that started later has another configuration file: its subscriptions are in force, not ours"
            )
            log.warning("%s", self.warning)
        elif not foreign:
            self.warning = None

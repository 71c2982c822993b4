"""Maintenance verbs: pause and resume deliveries, prune now."""

from __future__ import annotations

from holdfast.domain.address import parse_address, without_tokens
from holdfast.domain.errors import BadInput, NotFound
from holdfast.domain.event import check_name
from holdfast.domain.text import short_repr
from holdfast.operations.answers.maintenance import PAUSE_SCOPES, PauseChange, PrunedCounts
from holdfast.operations.context import LOCAL, OperationsContext

PRUNE_MAX = 100_000


class MaintenanceVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._store, self._retention, self._owner = context.store, context.retention, context.owner

    async def pause(self, scope: str, name: str, *, actor: str = LOCAL) -> PauseChange:
        """Pause deliveries of a contract, an address or a lane. Running ones finish, pending ones stay queued."""
        await self._check_pause(scope, name)
        if scope == "contract" and await self._store.contracts.get(name) is None:
            raise NotFound(f"there is no contract {short_repr(name)}")
        changed = await self._store.operator.pause(scope, name, by=self._owner.acting(actor))
        return PauseChange(scope, without_tokens(name), paused=True, changed=changed)

    async def resume(self, scope: str, name: str, *, actor: str = LOCAL) -> PauseChange:
        """Resume deliveries of a contract, an address or a lane."""
        await self._check_pause(scope, name)
        changed = await self._store.operator.resume(scope, name, by=self._owner.acting(actor))
        return PauseChange(scope, without_tokens(name), paused=False, changed=changed)

    async def prune(self, actor: str) -> PrunedCounts:
        """Remove rows past their retention now instead of within the hour."""
        by = self._owner.acting(actor)
        return PrunedCounts(**await self._store.maintenance.prune(self._retention, PRUNE_MAX, by))

    async def _check_pause(self, scope: str, name: str) -> None:
        if scope not in PAUSE_SCOPES:
            raise BadInput(f"pause and resume take a contract, an address or a lane, not {short_repr(scope)}")
        check_name(name, scope)
        if scope == "address":
            parse_address(name)

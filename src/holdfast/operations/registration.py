"""An application's contracts: put into the store when it starts, or when its tables are migrated."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from holdfast.domain.contract import Contract
from holdfast.store.roles.contracts import Contracts
from holdfast.store.roles.owners import Actor

log = logging.getLogger("holdfast.contracts")


async def register(
    contracts: Contracts,
    modules: frozenset[str],
    registered: Sequence[Contract],
    *,
    alone: bool = False,
    by: Actor | None = None,
) -> None:
    """Put these contracts of an application into the store, and retire those that its modules no longer register.

    `alone`: no other process can serve contracts of this store, so nothing has to be waited for.
    """
    for id in await contracts.register(modules, registered, alone=alone, by=by):
        log.warning(
            "contract %s is retired: the code that registered it is loaded here and no longer does. What waits for it "
            "is parked until it is registered again, or removed with: holdfast contracts remove %s",
            id,
            id,
        )

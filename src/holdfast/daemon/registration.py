"""An application's contracts: put into the store when it starts, or when its tables are migrated."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from holdfast.domain.contract import Contract
from holdfast.store.base import Feature, Store

log = logging.getLogger("holdfast.contracts")


async def register(store: Store, application: str, contracts: Sequence[Contract], *, keeper: bool = True) -> None:
    """Make these the contracts of an application. `keeper`: this process is the one that works on the store."""
    alone = keeper and Feature.ONE_KEEPER in store.features
    for id in await store.contracts.register(application, contracts, alone=alone):
        log.warning(
            "contract %s is retired: the application %s no longer registers it. What waits for it is parked until it "
            "is registered again, or removed with: holdfast contracts remove %s",
            id,
            application,
            id,
        )

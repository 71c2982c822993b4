"""Everything an operator can do, gathered: what REST, the command line and (later) other surfaces are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from holdfast.domain.retry import Policy
from holdfast.net.guard import Guard
from holdfast.operations.contract_health import find_faults
from holdfast.operations.contracts import ContractVerbs
from holdfast.operations.deliveries import DeadLetterVerbs, DeliveryVerbs
from holdfast.operations.events import EventVerbs
from holdfast.operations.sessions import SessionVerbs
from holdfast.operations.status import CareVerbs, ReceiptVerbs, TokenVerbs
from holdfast.ports import Chance, Clock
from holdfast.store.base import Owner, Retention, Store


class Operations:
    def __init__(
        self,
        store: Store,
        owner: Owner,
        guard: Guard,
        policies: Mapping[str, Policy],
        retention: Retention,
        clock: Clock,
        chance: Chance,
        health: Callable[[], dict[str, str]] = dict,
        spool_depth: Callable[[], int] = int,
        served: Callable[[], frozenset[str]] = frozenset,
        warnings: Callable[[], list[str]] = list,
        hooks: Callable[[], dict[str, int]] = dict,
        faults: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.events = EventVerbs(store, faults)
        self.deliveries = DeliveryVerbs(store, owner, faults)
        self.dead_letters = DeadLetterVerbs(store, owner)
        self.contracts = ContractVerbs(store, guard, policies, clock, served)
        self.sessions = SessionVerbs(store, clock)
        self.receipts = ReceiptVerbs(store)
        find = partial(self._find_faults, store, policies, served, clock)
        self.care = CareVerbs(store, retention, clock, health, spool_depth, warnings, hooks, faults, find)
        self.tokens = TokenVerbs(store, clock, chance)

    @staticmethod
    async def _find_faults(
        store: Store, policies: Mapping[str, Policy], served: Callable[[], frozenset[str]], clock: Clock
    ) -> dict[str, str]:
        return await find_faults(store.contracts, policies, served(), clock.now_ms())

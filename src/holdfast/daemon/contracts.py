"""Stores the contracts of the configuration file and of the application when a process starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.config.subscriptions import adopt
from holdfast.daemon.context import RuntimeContext
from holdfast.domain.contract import Contract
from holdfast.operations.duties.contract_sweep import ContractSweep
from holdfast.operations.registration import register
from holdfast.store.roles.owners import Owner


@dataclass(frozen=True, slots=True)
class ApplicationContracts:
    """The contracts of the application, and the modules whose contracts they replace."""

    contracts: Sequence[Contract] = ()
    modules: Callable[[], frozenset[str]] = frozenset


async def store_contracts(context: RuntimeContext, registered: ApplicationContracts, owner: Owner) -> ContractSweep:
    """Store them, and return the duty that retires those that have ended."""
    config, contracts = context.config, context.store.contracts
    application = owner.acting("application")
    await register(contracts, registered.modules(), registered.contracts, alone=context.one_keeper, by=application)
    now_ms = context.clock.now_ms()
    digest = await adopt(contracts, config.subscriptions, config.policies, now_ms, by=owner.acting("configuration"))
    return ContractSweep(
        contracts,
        context.store.routing,
        context.clock,
        digest,
        context.registry.forget_private,
        registered.modules,
        registered.contracts,
        owner.acting("contract expired"),
    )

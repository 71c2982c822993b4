"""Finds contracts that cannot be delivered: something they name is missing here, or no process serves them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from holdfast.domain.contract import Contract
from holdfast.domain.misconfiguration import misconfiguration
from holdfast.domain.retry import Policy
from holdfast.domain.text import short_repr
from holdfast.store.roles.contracts import Contracts
from holdfast.store.roles.deliveries import SERVED_MS


async def find_faults(
    contracts: Contracts, policies: Mapping[str, Policy], served_here: Collection[str], now_ms: int
) -> dict[str, str]:
    """Active contracts whose deliveries wait, each with the reason."""
    active = [contract for contract in await contracts.all() if not contract.is_expired(now_ms)]
    unserved = await find_unserved(contracts, active, served_here, now_ms)
    faults = {}
    for contract in active:
        fault = misconfiguration(contract, policies)
        if fault is None and contract.id in unserved:
            fault = unserved_text(contract)
        if fault is not None:
            faults[contract.id] = fault
    return faults


async def find_unserved(
    contracts: Contracts, candidates: Iterable[Contract], served_here: Collection[str], now_ms: int
) -> set[str]:
    """The ids of those contracts whose handler no process has served for a while."""
    queues = await contracts.queues()
    served_ms = {queue.contract_id: queue.served_at_ms for queue in queues}

    def is_unserved(contract: Contract) -> bool:
        if contract.address.kind != "handler" or contract.address.text in served_here:
            return False
        last_ms = served_ms.get(contract.id, 0)  # initially the time of creation: not served yet
        return last_ms <= contract.created_at_ms or now_ms - last_ms > SERVED_MS

    return {contract.id for contract in candidates if is_unserved(contract)}


def unserved_text(contract: Contract) -> str:
    return f"handler {short_repr(contract.address.name)} is served by no process"

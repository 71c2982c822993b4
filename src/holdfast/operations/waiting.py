"""Why pending deliveries are not attempted, as far as the store alone cannot know it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.domain.address import Address
from holdfast.domain.states import State
from holdfast.domain.text import short_repr
from holdfast.operations.context import OperationsContext
from holdfast.store.roles.deliveries import SERVED_MS
from holdfast.store.roles.operator import DeliveryRow

_DUE = (None, "next attempt")


async def find_wait_reasons(context: OperationsContext, rows: Sequence[DeliveryRow]) -> dict[int, str]:
    """The reasons by delivery id: a misconfigured contract, or a handler that no process serves."""
    faults = context.faults()
    pending = [row for row in rows if row.state == State.PENDING]
    reasons = {
        row.id: f"its contract is misconfigured: {faults[row.contract_id]}"
        for row in pending
        if row.contract_id is not None and row.contract_id in faults
    }
    candidates = [row for row in pending if row.id not in reasons and not row.leased and row.waits_for in _DUE]
    for row in await _unserved(context, candidates):
        reasons[row.id] = f"a process that serves handler {short_repr(Address('handler', row.address).name)}"
    return reasons


async def _unserved(context: OperationsContext, rows: Sequence[DeliveryRow]) -> list[DeliveryRow]:
    served_here = context.served()
    rows = [row for row in rows if row.address.startswith("handler:") and row.address not in served_here]
    if not rows:
        return []
    contracts, now_ms = context.store.contracts, context.clock.now_ms()
    served_ms = {(queue.contract_id, queue.address): queue.served_at_ms for queue in await contracts.queues()}
    created_ms = {
        id: contract.created_at_ms
        for id in {row.contract_id for row in rows if row.contract_id is not None}
        if (contract := await contracts.get(id)) is not None
    }

    def lacks_a_process(row: DeliveryRow) -> bool:
        last_ms = served_ms.get((row.contract_id, row.address), 0)
        if row.contract_id is None:
            never_served = last_ms == row.created_at_ms  # the queue was created with this delivery
        else:
            never_served = last_ms <= created_ms.get(row.contract_id, 0)
        return never_served or now_ms - last_ms > SERVED_MS

    return [row for row in rows if lacks_a_process(row)]

"""Ping: one sample event through one contract, whatever its criteria, and what came of it.

The event carries the name of its contract, and the router sends it nowhere else. A ping is attempted once: a failed one
is neither retried nor left as a dead letter.
"""

from __future__ import annotations

import asyncio

from holdfast.domain.address import without_tokens
from holdfast.domain.contract import Contract
from holdfast.domain.errors import Conflict
from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.json_value import JsonObject
from holdfast.domain.ping import PING_SOURCE, PING_TYPE
from holdfast.domain.states import State
from holdfast.domain.text import short_repr
from holdfast.operations.answers.deliveries import attempt_answer
from holdfast.operations.answers.ping import PingedContract
from holdfast.operations.context import OperationsContext
from holdfast.store.roles.operator import AttemptRow, DeliveryFilter, DeliveryRow

WAIT_S = 10.0
WAIT_MAX_S = 25.0
"""Less than the time after which a client gives up."""
LOOK_S = 0.05
HOLDS = {
    "paused": "the contract or its address is paused",
    "contract disabled": "the contract is disabled",
    "breaker open": "the address failed too often and is not tried again yet",
}
"""What keeps a delivery from being attempted for longer than a ping waits, as the store names it."""


async def ping_contract(context: OperationsContext, contract: Contract, wait_s: float, actor: str) -> PingedContract:
    if contract.session is not None:
        raise Conflict(
            f"contract {short_repr(contract.id)} sends messages to an agent session, and a ping would type into it; "
            f"use: holdfast send {contract.session} TEXT"
        )
    event = (await context.store.events.append([_sample(contract.id, context.clock.now_ms())]))[0]
    context.counts.accepted("api", 1)
    row, attempts = await _follow(context, event.id, wait_s)
    answer = _judge(contract, event.id, row, attempts, wait_s)
    if row is not None:
        await _clean_up(context, row, actor)
    return answer


def _sample(contract_id: str, now_ms: int) -> NewEvent:
    payload: JsonObject = {
        "text": f"This is a test of the contract {contract_id}.",
        "contract": contract_id,
        "sent_at_ms": now_ms,
    }
    return new_event(PING_TYPE, payload, source=PING_SOURCE, properties={"contract": contract_id})


async def _follow(
    context: OperationsContext, event_id: str, wait_s: float
) -> tuple[DeliveryRow | None, list[AttemptRow]]:
    """The delivery after its first attempt, or as it is when nothing will come of it soon."""
    operator, until_ms = context.store.operator, context.clock.boot_ms() + wait_s * 1000
    while True:
        found = (await operator.deliveries(DeliveryFilter(event=event_id), None, 1)).items
        row = found[0] if found else None
        if row is not None and (row.state != State.PENDING or row.attempts or row.waits_for in HOLDS):
            return row, await operator.attempts(row.id)
        if context.clock.boot_ms() >= until_ms:
            return row, []
        await asyncio.sleep(LOOK_S)


def _judge(
    contract: Contract, event_id: str, row: DeliveryRow | None, attempts: list[AttemptRow], wait_s: float
) -> PingedContract:
    last = attempts[-1] if attempts else None
    error: str | None = None
    if row is None:
        error = f"no process routed the event within {wait_s:g} s; it is sent when one runs: holdfast up"
    elif row.state == State.DROPPED:
        error = f"it was dropped ({row.reason})"
    elif row.state != State.DELIVERED and last is None:
        error = HOLDS.get(row.waits_for or "", f"no attempt ended within {wait_s:g} s")
    elif row.state != State.DELIVERED:
        error = row.last_error
    return PingedContract(
        contract_id=contract.id,
        address=without_tokens(contract.target.text),
        event_id=event_id,
        delivery_id=None if row is None else row.id,
        delivered=row is not None and row.state == State.DELIVERED,
        error=error,
        attempt=None if last is None else attempt_answer(last),
    )


async def _clean_up(context: OperationsContext, row: DeliveryRow, actor: str) -> None:
    """End what is still pending, and keep a failed ping out of the dead letters."""
    if row.state == State.PENDING:
        await context.store.operator.cancel(context.owner, [row.id], actor)
    elif row.state == State.DEAD:
        await context.store.operator.discard(context.owner, [row.id], actor)

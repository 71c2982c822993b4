"""Append a receipt of another system: idempotent, two attempts, then an operator is notified."""

from __future__ import annotations

import logging

from holdfast.domain.errors import ChainContention
from holdfast.domain.event import new_event
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.substrate_receipt import CHAIN, SubstrateReceipt
from holdfast.ports import Chance, Clock
from holdfast.store.roles.receipts import StoredReceipt
from holdfast.store.roles.store import Store

ATTEMPTS = 2
CONTENTION = "holdfast.receipts.contention"

log = logging.getLogger("holdfast.receipts")


async def append_receipt(
    store: Store, receipt: SubstrateReceipt, written_by: str, clock: Clock, chance: Chance
) -> StoredReceipt:
    """Append a receipt, or return the first one of the same source tuple."""
    id = make_id("rcp", clock.now_ms(), chance.entropy(ENTROPY_BYTES))
    for _ in range(ATTEMPTS - 1):
        try:
            return await store.receipts.append(receipt, id, written_by)
        except ChainContention:
            continue
    try:
        return await store.receipts.append(receipt, id, written_by)
    except ChainContention as error:
        message = f"{error.message}, {ATTEMPTS} times in a row; run: holdfast receipts verify --chain {CHAIN}"
        log.error("a receipt of %s was not appended: %s", receipt.source_system, message)
        properties = {"chain": CHAIN, "source_system": receipt.source_system}
        payload = {**receipt.source._asdict(), "error": message}
        await store.events.append([new_event(CONTENTION, payload, source="holdfast", properties=properties)])
        raise ChainContention(message) from None

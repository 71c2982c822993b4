"""What `holdfast receipts verify --rows` finds after a campaign: chains verify, and their fold equals the tables."""

from __future__ import annotations

import asyncio

from holdfast.domain.chain_check import ChainFault
from holdfast.ledger.row_check import RowCheck
from holdfast.ledger.verifier import verify_receipts
from holdfast.proof.kills.evidence import StoreRows
from holdfast.store.open import open_store
from holdfast.store.roles.receipts import StatusRow
from holdfast.store.roles.store import Store

SHOWN = 20


def verify_url(url: str) -> list[str]:
    """The faults of a store, which need not be open anywhere."""

    async def run() -> list[str]:
        store = open_store(url)
        try:
            return await verify_store(store)
        finally:
            await store.close()

    return asyncio.run(run())


async def verify_store(store: Store) -> list[str]:
    """The faults of an open store, a line for each."""
    found = await verify_receipts(store.receipts, rows=True)
    return [_line(fault) for fault in found.faults[:SHOWN]]


def compare_rows(rows: StoreRows) -> list[str]:
    """Fold the receipts and compare them with the tables, from rows that were read elsewhere."""
    check = RowCheck()
    faults = check.fold([link.as_row() for link in rows.links])
    statuses = [
        StatusRow(row.id, row.generation, row.attempts, row.state, row.reason, row.event) for row in rows.deliveries
    ]
    faults += check.compare(statuses, is_last=True)
    if rows.operator is not None:
        faults += check.operator.compare(rows.operator)
    return [_line(fault) for fault in faults[:SHOWN]]


def _line(fault: ChainFault) -> str:
    place = f"{fault.chain} {fault.seq}" if fault.chain else "no link"
    return f"{place}: {fault.kind}: {fault.message}"

"""Verbs on receipts: list, verify, and append those of other systems."""

from __future__ import annotations

import logging

from holdfast.domain.errors import HoldfastError
from holdfast.domain.event import check_name
from holdfast.domain.substrate_receipt import parse_receipt
from holdfast.ledger.append import append_receipt
from holdfast.ledger.checked_chains import extend_checked
from holdfast.ledger.signed_heads import KeptHeads
from holdfast.ledger.verifier import ALL, Range, Verification, verify_receipts
from holdfast.operations.answers.page import LIMIT_DEFAULT, Page, bad_cursor, check_cursor, check_limit, is_number
from holdfast.operations.answers.receipts import (
    AppendedReceipt,
    ChainHeads,
    ReceiptLink,
    SubstrateReceiptAnswer,
    VerifiedReceipts,
    appended_receipt,
    chain_head,
    receipt_link,
    substrate_receipt,
    verified_receipts,
)
from holdfast.operations.context import OperationsContext
from holdfast.ports import in_thread
from holdfast.store.roles.receipts import SubstrateFilter

NO_END = 1 << 62

log = logging.getLogger("holdfast.receipts")


class ReceiptVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._store, self._receipts = context.store, context.store.receipts
        self._clock, self._chance, self._signed_heads = context.clock, context.chance, context.signed_heads
        self._owner = context.owner

    async def append(self, body: object, actor: str, principal: str | None = None) -> AppendedReceipt:
        """Append a receipt of another system to the chain `substrate`, unless its source tuple has one.

        `principal`: who writes it, as the caller says; the receipt names it beside the token.
        """
        if principal is not None:
            check_name(principal, "the principal")
        receipt = parse_receipt(body, principal or actor)
        written_by = actor if principal is None else f"{actor} {principal}"
        return appended_receipt(await append_receipt(self._store, receipt, written_by, self._clock, self._chance))

    async def find_appended(
        self,
        *,
        source_system: str | None = None,
        source_table: str | None = None,
        source_id: str | None = None,
        action_type: str | None = None,
        tenant_id: str | None = None,
        after: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> Page[SubstrateReceiptAnswer]:
        """Receipts of other systems, in the order of the chain."""
        wanted = SubstrateFilter(source_system, source_table, source_id, action_type, tenant_id)
        first = int(check_cursor(after) or 0)
        rows = await self._receipts.substrate(wanted, first, NO_END, check_limit(limit))
        more = str(rows[-1].chain_seq) if len(rows) == limit else None
        return Page([substrate_receipt(row) for row in rows], more)

    async def verify(
        self, *, chain: str | None = None, first: int = 1, last: int | None = None, rows: bool = False
    ) -> VerifiedReceipts:
        """Check the links `first` to `last` of one chain or of all, and list every fault.

        `rows`: also compare each delivery with its receipts, whatever the range. This takes longer.
        """
        wanted = Range(chain, first, last)
        files = self._signed_heads
        kept = KeptHeads() if files is None else await in_thread("files", lambda: files.check(self._store.url))
        found = await verify_receipts(self._receipts, kept.anchors, wanted=wanted, rows=rows)
        found.add(fault for fault in kept.faults if chain in (None, fault.chain))
        await self._record(wanted, found, rows)
        return verified_receipts(found)

    async def _record(self, wanted: Range, found: Verification, rows: bool) -> None:
        """Keep the result for status, doctor and the web page. A check that may not write, or cannot, is still one."""
        if not self._owner.chain:
            return
        known = {record.chain: record for record in await self._receipts.checked()}
        records = extend_checked(known, wanted, found.ends, found.faults, self._clock.now_ms())
        try:
            await self._receipts.record_checked(records, forget=rows and wanted == ALL)
        except HoldfastError as error:
            log.warning("the result of the check could not be recorded: %s", error.message)

    async def heads(self) -> ChainHeads:
        """The last link of each chain, and how far it was verified."""
        checked = {record.chain: record for record in await self._receipts.checked()}
        return ChainHeads([chain_head(end, checked.get(end.chain)) for end in await self._receipts.ends()])

    async def find(
        self, *, chain: str | None = None, after: str | None = None, limit: int = LIMIT_DEFAULT
    ) -> Page[ReceiptLink]:
        """Links in order, chain by chain."""
        start_chain, _, seq = (":0" if after is None else after).rpartition(":")
        if not is_number(seq):
            raise bad_cursor(after)
        links = await self._receipts.links(chain, (start_chain, int(seq)), check_limit(limit))
        more = f"{links[-1].chain}:{links[-1].seq}" if len(links) == limit else None
        return Page([receipt_link(link) for link in links], more)

"""Verbs on receipts: list and verify."""

from __future__ import annotations

from holdfast.ledger.verifier import verify_receipts
from holdfast.operations.answers.page import LIMIT_DEFAULT, Page, bad_cursor, check_limit, is_number
from holdfast.operations.answers.receipts import ReceiptFault, ReceiptLink, VerifiedReceipts, receipt_link
from holdfast.operations.context import OperationsContext


class ReceiptVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._receipts = context.store.receipts

    async def verify(self) -> VerifiedReceipts:
        """Check every chain and list every fault."""
        result = await verify_receipts(self._receipts)
        faults = [ReceiptFault(**fault) for fault in result["faults"]]
        return VerifiedReceipts(result["ok"], result["chains"], result["links"], result["transitions"], faults)

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

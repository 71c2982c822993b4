"""Verbs on receipts: list and verify."""

from __future__ import annotations

from typing import Any

from holdfast.domain.errors import BadInput
from holdfast.domain.text import short_repr
from holdfast.ledger.verifier import verify_receipts
from holdfast.operations.answers import LIMIT_DEFAULT, check_limit, link_shape
from holdfast.operations.context import OperationsContext


class ReceiptVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._receipts = context.store.receipts

    async def verify(self) -> dict[str, Any]:
        """Check every chain and list every fault."""
        return await verify_receipts(self._receipts)

    async def find(
        self, *, chain: str | None = None, after: str | None = None, limit: int = LIMIT_DEFAULT
    ) -> dict[str, Any]:
        """Links in order, chain by chain."""
        start_chain, _, seq = (after or ":0").rpartition(":")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 19):
            raise BadInput(f"after={short_repr(after)} is not a cursor: pass `next` of the previous page")
        links = await self._receipts.links(chain, (start_chain, int(seq)), check_limit(limit))
        more = f"{links[-1].chain}:{links[-1].seq}" if len(links) == limit else None
        return {"items": [link_shape(link) for link in links], "next": more}

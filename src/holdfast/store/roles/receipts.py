"""Receipts: the hash-linked chains of everything that ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from holdfast.domain.receipt import Head, Link


class Receipts(Protocol):
    """Read access to the receipt chains; links are written by the transactions that they describe."""

    async def heads(self) -> dict[str, Head]:
        """The newest link of each chain."""

    async def links(self, chain: str | None, after: tuple[str, int], limit: int) -> list[Link]:
        """Links after (chain, seq), in order, of one chain or of all."""

    async def at(self, moments_ms: Sequence[int], limit: int) -> list[Link]:
        """The links written at these times, in the order of time."""

    def every(self) -> AsyncIterator[list[Link]]:
        """All links of all chains, in batches."""

"""Receipts on PostgreSQL: a link is written in the transaction that it records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from holdfast.domain.receipt import Head, Leaf, Link, leaf_lines, link
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.statements import sql

_PAGE = 500


class PostgresReceipts:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def heads(self) -> dict[str, Head]:
        return {chain: Head(seq, head) for chain, seq, head in await self._pool.rows(sql.node_heads)}

    async def links(self, chain: str | None, after: tuple[str, int], limit: int) -> list[Link]:
        if chain is None:
            rows = await self._pool.rows(sql.receipt_page, *after, limit)
        else:
            rows = await self._pool.rows(sql.receipt_page_chain, chain, after[1], limit)
        return [Link(*row) for row in rows]

    async def at(self, moments_ms: Sequence[int], limit: int) -> list[Link]:
        return [Link(*row) for row in await self._pool.rows(sql.receipt_at, sorted(moments_ms), limit)]

    async def every(self) -> AsyncIterator[list[Link]]:
        """All links, chain by chain, a bounded number at a time."""
        after = ("", 0)
        while page := await self.links(None, after, _PAGE):
            yield page
            after = (page[-1].chain, page[-1].seq)


async def write_link(
    connection: PooledConnection, chain: str, at_ms: int, actor: str, transitions: Sequence[Leaf]
) -> Head | None:
    """Write one link for one transaction and return the new head; None, and no link, without transitions."""
    if not transitions:
        return None
    ((seq, head),) = await connection.rows(sql.node_head, chain)
    new = next_link(chain, Head(seq, head), at_ms, actor, transitions)
    await connection.run(sql.receipt_add, chain, new.seq, new.at_ms, new.prev, new.root, new.hash, new.leaves)
    return Head(new.seq, new.hash)


def next_link(chain: str, head: Head, at_ms: int, actor: str, transitions: Sequence[Leaf]) -> Link:
    return link(chain, head, at_ms, leaf_lines(transitions, at_ms, actor))

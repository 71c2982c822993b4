"""Receipts on SQLite: a link is written in the transaction that it records."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence

from holdfast.domain.receipt import Head, Leaf, Link, leaf_lines, link
from holdfast.store.sqlite.connection import Connection, Row
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql

_PAGE = 500


class SqliteReceipts:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def heads(self) -> dict[str, Head]:
        rows = await self._reader.run(lambda c: c.rows(sql.node_heads))
        return {chain: Head(seq, bytes(head)) for chain, seq, head in rows}

    async def links(self, chain: str | None, after: tuple[str, int], limit: int) -> list[Link]:
        if chain is None:
            rows = await self._reader.run(lambda c: c.rows(sql.receipt_page, (*after, limit)))
        else:
            rows = await self._reader.run(lambda c: c.rows(sql.receipt_page_chain, (chain, after[1], limit)))
        return [_to_link(row) for row in rows]

    async def at(self, moments_ms: Sequence[int], limit: int) -> list[Link]:
        moments = json.dumps(sorted(moments_ms))
        return [_to_link(row) for row in await self._reader.run(lambda c: c.rows(sql.receipt_at, (moments, limit)))]

    async def every(self) -> AsyncIterator[list[Link]]:
        """All links, chain by chain, a bounded number at a time."""
        after = ("", 0)
        while page := await self.links(None, after, _PAGE):
            yield page
            after = (page[-1].chain, page[-1].seq)


def _to_link(row: Row) -> Link:
    chain, seq, at_ms, prev, root, hash, leaves = row
    return Link(chain, seq, at_ms, bytes(prev), bytes(root), bytes(hash), bytes(leaves))


def write_link(
    connection: Connection,
    chain: str,
    at_ms: int,
    actor: str,
    transitions: Sequence[Leaf],
) -> None:
    """Write one link for one transaction; none without transitions."""
    if not transitions:
        return
    seq, head = connection.rows(sql.node_head, (chain,))[0]
    new = link(chain, Head(seq, bytes(head)), at_ms, leaf_lines(transitions, at_ms, actor))
    connection.run(sql.receipt_add, (chain, new.seq, new.at_ms, new.prev, new.root, new.hash, new.leaves))
    connection.run(sql.node_advance, (new.seq, new.hash, chain))

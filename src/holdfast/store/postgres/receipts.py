"""Receipts on PostgreSQL: a link is written in the transaction that it records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import astuple

from holdfast.domain.chain_check import LinkRow
from holdfast.domain.errors import ChainContention
from holdfast.domain.json_value import Json
from holdfast.domain.receipt import Head, Leaf, Link, action_line, leaf_lines, link
from holdfast.domain.substrate_receipt import CHAIN, SubstrateReceipt
from holdfast.ports import Clock
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection, Row
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.receipts import (
    ChainEnd,
    CheckedChain,
    ContractState,
    OperatorState,
    PauseState,
    Statuses,
    StatusRow,
    StoredReceipt,
    SubstrateFilter,
    SubstrateRow,
    TokenState,
)
from holdfast.store.rows import checked_values, substrate_values, to_checked_chain

_PAGE = 500


class PostgresReceipts:
    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def append(self, receipt: SubstrateReceipt, id: str, written_by: str) -> StoredReceipt:
        """Repeatable: a second try after a lost response finds the receipt of the first, under the same id."""
        await self._pool.opened()
        now_ms = self._clock.now_ms()
        stored = await self._pool.run(
            lambda connection: _append(connection, receipt, id, now_ms, written_by), repeatable=True
        )
        return stored._replace(duplicate=False, differs=False) if stored.id == id else stored

    async def substrate(self, wanted: SubstrateFilter, after: int, last: int, limit: int) -> list[SubstrateRow]:
        rows = await self._pool.rows(sql.substrate_page, after, last, *astuple(wanted), limit)
        return [SubstrateRow(*row) for row in rows]

    async def heads(self) -> dict[str, Head]:
        return {chain: Head(seq, head) for chain, seq, head in await self._pool.rows(sql.node_heads)}

    async def ends(self) -> list[ChainEnd]:
        return [
            ChainEnd(chain, None if head is None else Head(seq, head), last or 0)
            for chain, seq, head, last in await self._pool.rows(sql.receipt_ends)
        ]

    async def rows(self, chain: str, first: int, last: int, limit: int) -> Sequence[LinkRow]:
        return await self._pool.rows(sql.receipt_rows, chain, first, last, limit)

    async def statuses(self, after: int, limit: int) -> Statuses:
        rows = await self._pool.rows(sql.delivery_statuses, after, limit)
        ends = {row[3]: row[1] for row in rows if row[0] == 0}
        return Statuses(ends, [StatusRow(*row) for row in rows if row[0] != 0])

    async def operator_state(self) -> OperatorState:
        found: dict[str, list[Row]] = {"chain": [], "contract": [], "token": [], "pause": []}
        for row in await self._pool.rows(sql.operator_state):
            found[row[0]].append(row)
        return OperatorState(
            {row[1]: row[3] for row in found["chain"]},
            [ContractState(row[1], row[2], row[3] & 1 != 0, row[3] & 2 != 0) for row in found["contract"]],
            [TokenState(row[1], row[2], bool(row[3])) for row in found["token"]],
            [PauseState(row[1], row[2], row[3]) for row in found["pause"]],
        )

    async def delivery_span(self) -> tuple[int, int]:
        ((first, last),) = await self._pool.rows(sql.delivery_span)
        return first, last

    async def links(self, chain: str | None, after: tuple[str, int], limit: int) -> list[Link]:
        if chain is None:
            rows = await self._pool.rows(sql.receipt_page, *after, limit)
        else:
            rows = await self._pool.rows(sql.receipt_page_chain, chain, after[1], limit)
        return [Link(*row) for row in rows]

    async def at(self, moments_ms: Sequence[int], limit: int) -> list[Link]:
        return [Link(*row) for row in await self._pool.rows(sql.receipt_at, sorted(moments_ms), limit)]

    async def record_checked(self, records: Sequence[CheckedChain], forget: bool = False) -> None:
        async def work(connection: PooledConnection) -> None:
            if forget:
                await connection.run(sql.checked_forget)
            for record in records:
                await connection.run(sql.checked_put, *checked_values(record))

        await self._pool.run(work, repeatable=True)

    async def checked(self) -> list[CheckedChain]:
        return [to_checked_chain(row) for row in await self._pool.rows(sql.checked_all)]

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


async def write_action(
    connection: PooledConnection, by: Actor | None, at_ms: int, action: str, **details: Json
) -> None:
    """Write one link about a change other than the transition of a delivery; none for a change by nobody."""
    if by is not None:
        await write_lines(connection, by.chain, at_ms, [action_line(action, at_ms, by.name, **details)])


async def write_lines(connection: PooledConnection, chain: str, at_ms: int, lines: list[bytes]) -> None:
    """Write one link with these lines."""
    ((seq, head),) = await connection.rows(sql.node_head, chain)
    new = link(chain, Head(seq, head), at_ms, lines)
    await connection.run(sql.receipt_add, chain, new.seq, new.at_ms, new.prev, new.root, new.hash, new.leaves)


async def _append(
    connection: PooledConnection, receipt: SubstrateReceipt, id: str, at_ms: int, written_by: str
) -> StoredReceipt:
    """Append a receipt of another system, or find the one of the same source tuple."""
    if known := await _known(connection, receipt):
        return known
    await connection.run(sql.node_shared)
    ((seq, head),) = await connection.rows(sql.node_head, CHAIN)  # locks: one after the other from here on
    if known := await _known(connection, receipt):
        return known
    if await connection.rows(sql.substrate_taken, seq + 1):
        raise ChainContention(f"place {seq + 1} of the chain {CHAIN} is taken")
    new = link(CHAIN, Head(seq, head), at_ms, [receipt.leaf(id, seq + 1, at_ms, written_by)])
    await connection.run(sql.receipt_add, CHAIN, new.seq, new.at_ms, new.prev, new.root, new.hash, new.leaves)
    await connection.run(sql.substrate_add, new.seq, id, *substrate_values(receipt))
    return StoredReceipt(id, new.seq, new.hash)


async def _known(connection: PooledConnection, receipt: SubstrateReceipt) -> StoredReceipt | None:
    found = await connection.rows(sql.substrate_known, *receipt.source)
    if not found:
        return None
    id, seq, hash, _, leaf = found[0]
    return StoredReceipt(id, seq, hash or bytes(32), True, leaf is None or not receipt.is_in(leaf))


def next_link(chain: str, head: Head, at_ms: int, actor: str, transitions: Sequence[Leaf]) -> Link:
    return link(chain, head, at_ms, leaf_lines(transitions, at_ms, actor))

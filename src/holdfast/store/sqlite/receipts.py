"""Receipts on SQLite: a link is written in the transaction that it records."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import astuple
from hashlib import sha256

from holdfast.domain.chain_check import LinkRow
from holdfast.domain.errors import ChainContention
from holdfast.domain.json_value import Json
from holdfast.domain.receipt import Head, Leaf, Link, action_line, leaf_lines, link
from holdfast.domain.substrate_receipt import CHAIN, SubstrateReceipt
from holdfast.ports import Clock
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
from holdfast.store.sqlite.connection import Connection, Row
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer

_PAGE = 500


class SqliteReceipts:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock, admit: Callable[[], None]) -> None:
        """`admit` raises if there is too little disk space to accept anything."""
        self._writer, self._reader, self._clock, self._admit = writer, reader, clock, admit

    async def append(self, receipt: SubstrateReceipt, id: str, written_by: str) -> StoredReceipt:
        self._admit()
        now_ms = self._clock.now_ms()
        return await self._writer.run(lambda connection: append_receipt(connection, receipt, id, now_ms, written_by))

    async def substrate(self, wanted: SubstrateFilter, after: int, last: int, limit: int) -> list[SubstrateRow]:
        values = (after, last, *astuple(wanted), limit)
        rows = await self._reader.run(lambda c: c.rows(sql.substrate_page, values))
        return [SubstrateRow(*row) for row in rows]

    async def heads(self) -> dict[str, Head]:
        rows = await self._reader.run(lambda c: c.rows(sql.node_heads))
        return {chain: Head(seq, bytes(head)) for chain, seq, head in rows}

    async def ends(self) -> list[ChainEnd]:
        rows = await self._reader.run(lambda c: c.rows(sql.receipt_ends))
        return [
            ChainEnd(chain, None if head is None else Head(seq, bytes(head)), last or 0)
            for chain, seq, head, last in rows
        ]

    async def rows(self, chain: str, first: int, last: int, limit: int) -> Sequence[LinkRow]:
        return await self._reader.run(lambda c: c.rows(sql.receipt_rows, (chain, first, last, limit)))

    async def statuses(self, after: int, limit: int) -> Statuses:
        def look(connection: Connection) -> Statuses:
            rows = connection.rows(sql.delivery_statuses, (after, limit))
            ends = {chain: seq for chain, seq, _ in connection.rows(sql.node_heads)}
            return Statuses(ends, [StatusRow(*row) for row in rows])

        return await self._reader.run(look)

    async def operator_state(self) -> OperatorState:
        return await self._reader.run(read_operator_state)

    async def delivery_span(self) -> tuple[int, int]:
        ((first, last),) = await self._reader.run(lambda c: c.rows(sql.delivery_span))
        return first, last

    async def links(self, chain: str | None, after: tuple[str, int], limit: int) -> list[Link]:
        if chain is None:
            rows = await self._reader.run(lambda c: c.rows(sql.receipt_page, (*after, limit)))
        else:
            rows = await self._reader.run(lambda c: c.rows(sql.receipt_page_chain, (chain, after[1], limit)))
        return [_to_link(row) for row in rows]

    async def at(self, moments_ms: Sequence[int], limit: int) -> list[Link]:
        moments = json.dumps(sorted(moments_ms))
        return [_to_link(row) for row in await self._reader.run(lambda c: c.rows(sql.receipt_at, (moments, limit)))]

    async def record_checked(self, records: Sequence[CheckedChain], forget: bool = False) -> None:
        def work(connection: Connection) -> None:
            if forget:
                connection.run(sql.checked_forget)
            connection.many(sql.checked_put, [checked_values(record) for record in records])

        await self._writer.run(work)

    async def checked(self) -> list[CheckedChain]:
        rows = await self._reader.run(lambda c: c.rows(sql.checked_all))
        return [to_checked_chain(row) for row in rows]

    async def every(self) -> AsyncIterator[list[Link]]:
        """All links, chain by chain, a bounded number at a time."""
        after = ("", 0)
        while page := await self.links(None, after, _PAGE):
            yield page
            after = (page[-1].chain, page[-1].seq)


def read_operator_state(connection: Connection) -> OperatorState:
    ends = {chain: seq for chain, seq, _ in connection.rows(sql.node_heads)}
    contracts: list[ContractState] = []

    def take(row: Row) -> bool:
        id, text, active, removed = row
        contracts.append(ContractState(id, sha256(text.encode()).hexdigest(), bool(active), bool(removed)))
        return True

    connection.each(sql.contract_states, (), take)
    tokens = [TokenState(id, scope, bool(revoked)) for id, scope, revoked in connection.rows(sql.token_states)]
    return OperatorState(ends, contracts, tokens, [PauseState(*row) for row in connection.rows(sql.pause_all)])


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
    if transitions:
        write_lines(connection, chain, at_ms, leaf_lines(transitions, at_ms, actor))


def write_action(connection: Connection, by: Actor | None, at_ms: int, action: str, **details: Json) -> None:
    """Write one link about a change other than the transition of a delivery; none for a change by nobody."""
    if by is None:
        return
    write_lines(connection, by.chain, at_ms, [action_line(action, at_ms, by.name, **details)])


def append_receipt(
    connection: Connection, receipt: SubstrateReceipt, id: str, at_ms: int, written_by: str
) -> StoredReceipt:
    """Append a receipt of another system, or find the one of the same source tuple."""
    if known := connection.rows(sql.substrate_known, receipt.source):
        id, seq, hash, _, leaf = known[0]
        return StoredReceipt(id, seq, hash or bytes(32), True, leaf is None or not receipt.is_in(leaf))
    connection.run(sql.node_shared)
    ((seq, _),) = connection.rows(sql.node_head, (CHAIN,))
    if connection.rows(sql.substrate_taken, (seq + 1,)):
        raise ChainContention(f"place {seq + 1} of the chain {CHAIN} is taken")
    new = write_lines(connection, CHAIN, at_ms, [receipt.leaf(id, seq + 1, at_ms, written_by)])
    connection.run(sql.substrate_add, (new.seq, id, *substrate_values(receipt)))
    return StoredReceipt(id, new.seq, new.hash)


def write_lines(connection: Connection, chain: str, at_ms: int, lines: list[bytes]) -> Link:
    seq, head = connection.rows(sql.node_head, (chain,))[0]
    new = link(chain, Head(seq, bytes(head)), at_ms, lines)
    connection.run(sql.receipt_add, (chain, new.seq, new.at_ms, new.prev, new.root, new.hash, new.leaves))
    connection.run(sql.node_advance, (new.seq, new.hash, chain))
    return new

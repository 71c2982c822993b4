"""Checks receipts of other systems: their content, and the table by which they are found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from holdfast.domain.chain_check import ChainFault, LinkRow
from holdfast.domain.substrate_receipt import CHAIN, SourceTuple, leaf_faults
from holdfast.store.roles.receipts import Receipts, SubstrateFilter, SubstrateRow

PAGE = 2000

_EVERY = SubstrateFilter()


def check_content(page: Iterable[LinkRow]) -> list[ChainFault]:
    """Receipts that do not say what they are about, or whose references cannot be read."""
    return [
        ChainFault(CHAIN, seq, kind, message)
        for _, seq, _, _, _, _, leaves in page
        for kind, message in leaf_faults(leaves, seq)
    ]


async def check_listing(receipts: Receipts) -> list[ChainFault]:
    """Compare the table with the chain, in which every receipt has one row, and every row its own source tuple."""
    (last,) = [end.last for end in await receipts.ends() if end.chain == CHAIN] or [0]
    faults: list[ChainFault] = []
    sources: Counter[int] = Counter()
    for first in range(1, last + 1, PAGE):
        up_to = min(last, first + PAGE - 1)
        links = {row[1]: row[6] for row in await receipts.rows(CHAIN, first, up_to, 2 * PAGE)}
        rows = {row.chain_seq: row for row in await receipts.substrate(_EVERY, first - 1, up_to, PAGE)}
        for seq in range(first, up_to + 1):
            faults += _compare(seq, links.get(seq), rows.get(seq))
        for row in rows.values():
            source = hash(_source(row))
            sources[source] += 1
            if sources[source] == 2:
                message = f"another receipt has the same source: {', '.join(filter(None, _source(row)))}"
                faults.append(ChainFault(CHAIN, row.chain_seq, "duplicate_source", message))
    extra = await receipts.substrate(_EVERY, last, 1 << 62, PAGE)
    now = [end.last for end in await receipts.ends() if end.chain == CHAIN]
    faults += [
        fault for row in extra if row.chain_seq > max(now, default=0) for fault in _compare(row.chain_seq, None, row)
    ]
    return faults


def _source(row: SubstrateRow) -> SourceTuple:
    return SourceTuple(row.source_system, row.source_table, row.source_id, row.action_type, row.source_version)


def _compare(seq: int, leaf: bytes | None, row: SubstrateRow | None) -> list[ChainFault]:
    if leaf is None:
        return [] if row is None else [_fault(seq, "row_without_receipt", f"receipt {row.id} is not on the chain")]
    try:
        stored = json.loads(leaf)
        if row is None:
            return [_fault(seq, "row_missing", f"receipt {stored.get('id')} is on the chain but not in the table")]
        shown = {**row._asdict(), "references": json.loads(row.references_json)}
        names = ("id", *_source(row)._fields, "tenant_id", "actor_id", "actor_kind", "input_hash", "output_hash")
        different = [name for name in (*names, "references") if shown[name] != stored.get(name)]
    except (ValueError, AttributeError, RecursionError):
        return []  # the check of the content reports it
    return [_fault(seq, "row_differs", f"the table has another {', '.join(different)}")] if different else []


def _fault(seq: int, kind: str, message: str) -> ChainFault:
    return ChainFault(CHAIN, seq, kind, message)

"""Whether the book is whole: links, hashes, gaps, ends, and heads that were exported elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from holdfast.domain.receipt import NO_LINKS, ChainFault, Head, Link, verify
from holdfast.store.roles.receipts import Receipts

FAULTS_MAX = 1000


async def verify_receipts(receipts: Receipts, anchors: Iterable[tuple[str, Head]] = ()) -> dict[str, Any]:
    """Check every chain and report every fault, up to a bound."""
    heads = await receipts.heads()
    faults: list[ChainFault] = []
    links = leaves = 0
    ends: dict[str, Head] = {}
    wanted = list(anchors)
    async for page in _upto(receipts.every(), heads):
        for link in page:
            links += 1
            leaves += link.count
        faults.extend(_page_faults(page, ends, wanted))
        if len(faults) >= FAULTS_MAX:
            break
    faults.extend(_end_faults(heads, ends, wanted))
    return {
        "ok": not faults,
        "chains": len(heads),
        "links": links,
        "transitions": leaves,
        "faults": [fault.as_dict() for fault in faults[:FAULTS_MAX]],
    }


async def _upto(pages: AsyncIterator[list[Link]], heads: dict[str, Head]) -> AsyncIterator[list[Link]]:
    """Links written after the heads were read are not judged: they belong to the next look."""
    async for page in pages:
        yield [link for link in page if link.seq <= heads.get(link.chain, NO_LINKS).seq]


def _page_faults(page: list[Link], ends: dict[str, Head], wanted: list[tuple[str, Head]]) -> list[ChainFault]:
    """The faults inside one page, carried over from the page before it."""
    faults: list[ChainFault] = []
    for chain in dict.fromkeys(link.chain for link in page):
        links = [link for link in page if link.chain == chain]
        known = [(c, head) for c, head in wanted if c == chain and links[0].seq <= head.seq <= links[-1].seq]
        faults.extend(verify(links, anchors=known, before={chain: ends.get(chain, NO_LINKS)}))
        ends[chain] = Head(links[-1].seq, links[-1].hash)
    return faults


def _end_faults(heads: dict[str, Head], ends: dict[str, Head], wanted: list[tuple[str, Head]]) -> list[ChainFault]:
    faults = list(verify((), heads={c: h for c, h in heads.items() if ends.get(c, NO_LINKS) != h}))
    for chain, anchor in wanted:
        if anchor.seq > ends.get(chain, NO_LINKS).seq:
            faults.append(ChainFault(chain, anchor.seq, "cut", "an exported head names a link that is no longer there"))
    return faults

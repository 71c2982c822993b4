"""Verify the receipts: links, hashes, gaps, the ends of chains, and heads that were exported elsewhere."""

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
    anchor_list = list(anchors)
    async for page in _up_to_heads(receipts.every(), heads):
        for link in page:
            links += 1
            leaves += link.count
        faults.extend(_page_faults(page, ends, anchor_list))
        if len(faults) >= FAULTS_MAX:
            break
    faults.extend(_end_faults(heads, ends, anchor_list))
    return {
        "ok": not faults,
        "chains": len(heads),
        "links": links,
        "transitions": leaves,
        "faults": [fault.as_dict() for fault in faults[:FAULTS_MAX]],
    }


async def _up_to_heads(pages: AsyncIterator[list[Link]], heads: dict[str, Head]) -> AsyncIterator[list[Link]]:
    """Leave out links written after the heads were read: the next verification checks them."""
    async for page in pages:
        yield [link for link in page if link.seq <= heads.get(link.chain, NO_LINKS).seq]


def _page_faults(page: list[Link], ends: dict[str, Head], anchors: list[tuple[str, Head]]) -> list[ChainFault]:
    """The faults inside one page. `ends` carries the head of each chain from page to page."""
    faults: list[ChainFault] = []
    for chain in dict.fromkeys(link.chain for link in page):
        links = [link for link in page if link.chain == chain]
        in_page = [(c, head) for c, head in anchors if c == chain and links[0].seq <= head.seq <= links[-1].seq]
        faults.extend(verify(links, anchors=in_page, before={chain: ends.get(chain, NO_LINKS)}))
        ends[chain] = Head(links[-1].seq, links[-1].hash)
    return faults


def _end_faults(heads: dict[str, Head], ends: dict[str, Head], anchors: list[tuple[str, Head]]) -> list[ChainFault]:
    faults = list(verify((), heads={c: h for c, h in heads.items() if ends.get(c, NO_LINKS) != h}))
    for chain, anchor in anchors:
        if anchor.seq > ends.get(chain, NO_LINKS).seq:
            faults.append(ChainFault(chain, anchor.seq, "cut", "an exported head names a link that is missing"))
    return faults

"""Verify the receipts: links, hashes, gaps, the ends of chains, heads that were exported elsewhere, and rows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from holdfast.domain.chain_check import NO_LINKS, ChainCheck, ChainFault, Head, LinkRow
from holdfast.domain.substrate_receipt import CHAIN as SUBSTRATE
from holdfast.ledger.row_check import RowCheck
from holdfast.ledger.substrate_check import check_content, check_listing
from holdfast.ports import in_thread
from holdfast.store.roles.receipts import ChainEnd, Receipts

FAULTS_MAX = 1000
LINKS_PER_PAGE = 1000
LINKS_MIN = 64
PAGE_BYTES = 8 * 1024 * 1024
SAMPLE_EVERY = 16
ROWS_PER_PAGE = 5000

Progress = Callable[[int, int], None]
"""Called with the number of links checked so far, and of all links to check."""


@dataclass(frozen=True, slots=True)
class Range:
    """The links to check: from `first` to `last` of one chain or of all."""

    chain: str | None = None
    first: int = 1
    last: int | None = None


ALL = Range()


@dataclass(slots=True)
class Verification:
    """What a check found. `rows`: deliveries compared with their receipts. `complete`: it did not stop early.

    `ends`: the last link of each chain that was looked at.
    """

    chains: int = 0
    links: int = 0
    transitions: int = 0
    anchors: int = 0
    rows: int | None = None
    complete: bool = True
    faults: list[ChainFault] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.faults

    def add(self, faults: Iterable[ChainFault]) -> bool:
        """Keep the faults, up to a bound. False: the bound is reached."""
        self.faults += faults
        if len(self.faults) > FAULTS_MAX:
            del self.faults[FAULTS_MAX:]
            self.complete = False
        return self.complete


async def verify_receipts(
    receipts: Receipts,
    anchors: Iterable[tuple[str, Head]] = (),
    *,
    wanted: Range = ALL,
    rows: bool = False,
    progress: Progress = lambda done, total: None,
) -> Verification:
    """Check the chains, a bounded number of links at a time, and report every fault, up to a bound.

    Links that are written meanwhile are left to the next verification. `rows`: also compare each delivery with what
    its receipts say, on whatever chain they are.
    """
    anchored: dict[str, list[Head]] = {}
    for chain, head in anchors:
        anchored.setdefault(chain, []).append(head)
    ends = [end for end in await receipts.ends() if wanted.chain in (None, end.chain)]
    known = {end.chain for end in ends}
    ends += [ChainEnd(chain, NO_LINKS, 0) for chain in anchored if chain not in known and wanted.chain in (None, chain)]
    found = Verification(chains=len(known))
    row_check = RowCheck() if rows else None
    fold_now = row_check if wanted == ALL else None
    total = sum(max(0, _last(end, wanted) - wanted.first + 1) for end in ends)
    for end in ends:
        if not await _check_chain(receipts, end, wanted, anchored.get(end.chain, []), found, fold_now, progress, total):
            return found
    if row_check is not None:
        if not found.add(await check_listing(receipts)):
            return found
        folded = {} if fold_now is None else {end.chain: end.last for end in ends}
        await _check_rows(receipts, row_check, folded, found)
    return found


def _last(end: ChainEnd, wanted: Range) -> int:
    return end.last if wanted.last is None else min(end.last, wanted.last)


async def _check_chain(
    receipts: Receipts,
    end: ChainEnd,
    wanted: Range,
    anchors: Sequence[Head],
    found: Verification,
    row_check: RowCheck | None,
    progress: Progress,
    total: int,
) -> bool:
    """Check one chain. False: there are so many faults that the check stops."""
    last = _last(end, wanted)
    if wanted.first > max(1, last):
        return True
    before = await _head_before(receipts, end.chain, wanted.first)
    check = ChainCheck(end.chain, before, [one for one in anchors if wanted.last is None or one.seq <= wanted.last])
    done = found.links
    async with aclosing(pages(receipts, end.chain, wanted.first, last)) as found_pages:
        async for page in found_pages:
            faults = await in_thread("files", partial(_feed, check, page, row_check))
            found.links, found.transitions = done + check.links, found.transitions + _take_leaves(check)
            progress(found.links, total)
            if not found.add(faults):
                return False
    found.anchors += len([one for one in anchors if wanted.first <= one.seq <= check.end.seq])
    found.ends[end.chain] = last
    whole = wanted.last is None or wanted.last >= end.last
    return found.add(check.finish(end.head if whole else check.end))


def _feed(check: ChainCheck, page: Sequence[LinkRow], row_check: RowCheck | None) -> list[ChainFault]:
    faults = check.feed(page)
    if row_check is not None:
        faults += row_check.fold(page)
    if check.chain == SUBSTRATE:
        faults += check_content(page)
    return faults


def _take_leaves(check: ChainCheck) -> int:
    leaves, check.leaves = check.leaves, 0
    return leaves


async def _head_before(receipts: Receipts, chain: str, first: int) -> Head:
    """The head before the first wanted link, as that link's predecessor records it."""
    if first <= 1:
        return NO_LINKS
    rows = await receipts.rows(chain, first - 1, first - 1, 1)
    return Head(first - 1, rows[0][5] if rows else NO_LINKS.hash)


async def pages(receipts: Receipts, chain: str, first: int, last: int) -> AsyncGenerator[Sequence[LinkRow], None]:
    """The links of a chain, page by page.

    A page begins at the last sequence number of the one before, and what was seen is left out: a second link with the
    same number would otherwise be skipped at a page's end.

    The next page is read while the caller works on this one, since hashing and the database's work then overlap.
    """
    seen: Counter[bytes] = Counter()
    limit = LINKS_PER_PAGE
    reading = asyncio.ensure_future(receipts.rows(chain, first, last, limit))
    try:
        while page := await reading:
            begin, end = first, page[-1][1]
            first = end + 1 if end == first else end
            is_last = len(page) < limit or first > last
            if not is_last:
                limit = _links_at_once(page)
                reading = asyncio.ensure_future(receipts.rows(chain, first, last, limit))
            if fresh := _without(page, begin, seen):
                yield fresh
            if is_last:
                return
            seen = Counter(row[5] for row in page if row[1] == end)
    finally:
        reading.cancel()


def _links_at_once(page: Sequence[LinkRow]) -> int:
    """How many links to read next: a link may have hundreds of leaves, and the memory of a page is limited."""
    leaves: list[object] = [row[6] for row in page[::SAMPLE_EVERY]]  # a manipulated value may have any type
    size = sum(len(one) for one in leaves if isinstance(one, bytes)) * SAMPLE_EVERY
    return min(LINKS_PER_PAGE, max(LINKS_MIN, PAGE_BYTES * len(page) // max(size, 1)))


def _without(page: Sequence[LinkRow], seq: int, seen: Counter[bytes]) -> Sequence[LinkRow]:
    """The page without the links of one sequence number that were seen before."""
    fresh: list[LinkRow] = []
    for at, row in enumerate(page):
        if row[1] != seq or not seen:
            return [*fresh, *page[at:]]
        if seen[row[5]]:
            seen -= Counter([row[5]])
        else:
            fresh.append(row)
    return fresh


async def _check_rows(receipts: Receipts, check: RowCheck, folded: Mapping[str, int], found: Verification) -> None:
    """Compare the deliveries with what the receipts say, page by page, and then what operators have set."""
    folded, after, found.rows = dict(folded), 0, 0
    while True:
        statuses = await receipts.statuses(after, ROWS_PER_PAGE)
        await _fold_up_to(receipts, check, folded, statuses.ends)
        is_last = len(statuses.rows) < ROWS_PER_PAGE
        faults = await in_thread("files", partial(check.compare, statuses.rows, is_last))
        found.rows += len(statuses.rows)
        if not found.add(faults):
            return
        if is_last:
            break
        after = statuses.rows[-1].id
    state = await receipts.operator_state()
    await _fold_up_to(receipts, check, folded, state.ends)
    found.add(await in_thread("files", partial(check.operator.compare, state)))


async def _fold_up_to(receipts: Receipts, check: RowCheck, folded: dict[str, int], ends: Mapping[str, int]) -> None:
    """Take note of the links that were written since."""
    for chain, end in ends.items():
        async for page in pages(receipts, chain, folded.get(chain, 0) + 1, end):
            check.fold(page)
        folded[chain] = max(end, folded.get(chain, 0))

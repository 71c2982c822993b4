"""Compares deliveries with their receipts: the last receipt of a delivery says how its row stands.

The last one is known without any clock: a delivery's generation and attempts only grow, and an end comes after the
attempts before it. So each receipt becomes one number, and the highest is the last.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from zlib import crc32

from holdfast.domain.chain_check import ChainFault, LinkRow
from holdfast.domain.states import Reason, State
from holdfast.ledger.operator_check import OperatorCheck
from holdfast.store.roles.receipts import StatusRow

CHUNK = 1 << 14
MERGE_EVERY = 256

_LEAF = re.compile(
    rb'"attempts":(\d{1,7}),"delivery":(\d{1,18}),"event":"((?:[^"\\]|\\.)*)","generation":(\d{1,7}),'
    rb'"reason":(?:null|"([a-z_]+)"),"state":"([a-z]+)"\}'
)
_PENDING = 0
_STATES = {State.PENDING: _PENDING, State.DELIVERED: 1, State.DEAD: 2, State.DROPPED: 3}
_REASONS: dict[str | None, int] = {None: 0, **{reason.value: number for number, reason in enumerate(Reason, 1)}}
_CODES = {
    (None if reason is None else reason.encode(), state.value.encode()): order << 8 | number
    for reason, number in _REASONS.items()
    for state, order in _STATES.items()
}
_NAMES = {
    order << 8 | number: state.value if reason is None else f"{state.value}({reason})"
    for reason, number in _REASONS.items()
    for state, order in _STATES.items()
}
_DISCARD = {_STATES[State.DEAD] << 8, _STATES[State.DROPPED] << 8}
_UNTOUCHED = 1 << 40


class _Chunk:
    """What the receipts say about `CHUNK` deliveries: a status, a checksum of the event id, and the last receipt."""

    __slots__ = ("chains", "events", "seqs", "statuses")

    def __init__(self) -> None:
        self.statuses = array("Q", bytes(8 * CHUNK))
        self.events = array("I", bytes(4 * CHUNK))
        self.seqs = array("Q", bytes(8 * CHUNK))
        self.chains = array("H", bytes(2 * CHUNK))


class RowCheck:
    """Fold all links first, then compare all deliveries in order of their ids."""

    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}
        self._chains: list[str] = []
        self._pruned: list[tuple[int, int]] = []
        self._unmerged = 0
        self._compared = 0
        self.operator = OperatorCheck()

    def fold(self, page: Iterable[LinkRow]) -> list[ChainFault]:
        """Take note of what these links record."""
        faults: list[ChainFault] = []
        for chain, seq, _, _, _, _, leaves in page:
            if chain == "substrate" or not leaves:
                continue
            number = self._chain(chain)
            found = _LEAF.findall(leaves)
            for attempts, delivery, event, generation, reason, state in found:
                code = _CODES.get((reason or None, state))
                if code is None:
                    faults.append(ChainFault(chain, seq, "malformed", f"delivery {int(delivery)} has an unknown state"))
                    continue
                status = int(generation) << 40 | int(attempts) << 16 | code
                if fault := self._keep(int(delivery), status, event, number, seq):
                    faults.append(ChainFault(chain, seq, "contradiction", fault, int(delivery)))
            if len(found) != leaves.count(b"\n") + 1:
                faults += self._fold_others(chain, seq, leaves)
        return faults

    def compare(self, rows: Sequence[StatusRow], is_last: bool) -> list[ChainFault]:
        """The faults of these rows, and of receipts whose row is missing before them."""
        self._merge()
        faults: list[ChainFault] = []
        for id, generation, attempts, state, reason, event in rows:
            if id > self._compared + 1:
                faults += self._missing(self._compared + 1, id - 1)
            self._compared = id
            code = _CODES.get((None if reason is None else reason.encode(), state.encode()), 0xFFFF)
            status = generation << 40 | attempts << 16 | code
            chunk, at = self._chunks.get(id // CHUNK), id % CHUNK
            receipt = 0 if chunk is None else chunk.statuses[at]
            if receipt != status and not (receipt == 0 and status == _UNTOUCHED):
                faults.append(self._differs(id, _describe(status), receipt))
            elif chunk is not None and receipt and (event is None or chunk.events[at] != _checksum(event)):
                faults.append(
                    self._fault(id, "row_differs", f"delivery {id} belongs to another event than its receipt")
                )
        if is_last:
            faults += self._missing(self._compared + 1, None)
        return faults

    def _chain(self, chain: str) -> int:
        if not self._chains or self._chains[-1] != chain:
            if chain in self._chains:
                return self._chains.index(chain)
            self._chains.append(chain)
        return len(self._chains) - 1

    def _keep(self, delivery: int, status: int, event: bytes, chain: int, seq: int) -> str | None:
        chunk = self._chunks.get(delivery // CHUNK)
        if chunk is None:
            chunk = self._chunks[delivery // CHUNK] = _Chunk()
        at = delivery % CHUNK
        known = chunk.statuses[at]
        if status >= known:
            chunk.statuses[at], chunk.events[at] = status, crc32(event)
            chunk.seqs[at], chunk.chains[at] = seq, chain
        if known >> 40 != status >> 40 or not known & 0xFF00 or not status & 0xFF00:
            return None
        if {known & 0xFF00, status & 0xFF00} == _DISCARD:
            return None
        return f"delivery {delivery} ends twice: {_describe(known)} and {_describe(status)}"

    def _fold_others(self, chain: str, seq: int, leaves: bytes) -> Iterator[ChainFault]:
        """Lines that record something else than a transition of one delivery."""
        for line in leaves.split(b"\n"):
            if _LEAF.search(line):
                continue
            try:
                leaf = json.loads(line)
                if not isinstance(leaf["action"], str):
                    raise TypeError
                self.operator.fold(chain, seq, leaf)
                for first, last in leaf.get("pruned_deliveries", ()):
                    self._pruned.append((int(first), int(last)))
                    self._unmerged += 1
            except (ValueError, TypeError, KeyError):
                yield ChainFault(chain, seq, "malformed", "it records neither a transition nor an action")
        if self._unmerged >= MERGE_EVERY:
            self._merge()

    def _merge(self) -> None:
        """Join the pruned ranges, and forget what the receipts say about deliveries that are all pruned."""
        if not self._unmerged:
            return
        merged: list[tuple[int, int]] = []
        for first, last in sorted(self._pruned):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        self._pruned, self._unmerged = merged, 0
        for first, last in merged:
            if last - first >= CHUNK - 1:
                for number in [n for n in self._chunks if first <= n * CHUNK and n * CHUNK + CHUNK - 1 <= last]:
                    del self._chunks[number]

    def _missing(self, first: int, last: int | None) -> Iterator[ChainFault]:
        """Receipts of deliveries without a row that no prune explains."""
        for number in sorted(self._chunks):
            start = max(first, number * CHUNK)
            stop = number * CHUNK + CHUNK if last is None else min(last + 1, number * CHUNK + CHUNK)
            statuses = self._chunks[number].statuses
            while start < stop:
                if (after := self._after_pruned(start)) != start:
                    start = after
                elif statuses[start % CHUNK]:
                    receipt = _describe(statuses[start % CHUNK])
                    yield self._fault(start, "row_missing", f"delivery {start} is gone; its receipt says {receipt}")
                    start += 1
                else:
                    start += 1

    def _after_pruned(self, id: int) -> int:
        """The first id from this one on that was not pruned."""
        at = bisect_right(self._pruned, (id, 1 << 62)) - 1
        return self._pruned[at][1] + 1 if at >= 0 and self._pruned[at][1] >= id else id

    def _differs(self, id: int, row: str, receipt: int) -> ChainFault:
        if not receipt:
            return ChainFault("", 0, "row_without_receipt", f"delivery {id} is {row}; it has no receipt", id)
        return self._fault(id, "row_differs", f"delivery {id} is {row}; its receipt says {_describe(receipt)}")

    def _fault(self, id: int, kind: str, message: str) -> ChainFault:
        chunk, at = self._chunks[id // CHUNK], id % CHUNK
        return ChainFault(self._chains[chunk.chains[at]], chunk.seqs[at], kind, message, id)


def _describe(status: int) -> str:
    """A status in words."""
    name = _NAMES.get(status & 0xFFFF, "in an unknown state")
    attempts, generation = status >> 16 & 0xFFFFFF, status >> 40
    life = "" if generation == 1 else f", generation {generation}"
    return f"{name} after {attempts} attempt{'' if attempts == 1 else 's'}{life}"


def _checksum(event: str) -> int:
    """Of an event id as a receipt writes it."""
    return crc32(json.dumps(event)[1:-1].encode())

"""Checks the links of one receipt chain, fed in order, and describes each fault with its position."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from holdfast.domain.json_value import Json

GENESIS = bytes(32)


class Head(NamedTuple):
    """The end of a chain: sequence number and hash of its last link (0 and zeros before the first)."""

    seq: int
    hash: bytes


NO_LINKS = Head(0, GENESIS)

LinkRow = tuple[str, int, int, bytes, bytes, bytes, bytes]
"""chain, seq, time in milliseconds, prev, root, hash, leaves: a link as a store reads it."""


class ChainFault(NamedTuple):
    """One fault of a chain: its position, kind and description. `delivery`: the row that it is about, if it is."""

    chain: str
    seq: int
    kind: str
    message: str
    delivery: int | None = None

    def as_dict(self) -> dict[str, Json]:
        return self._asdict()


class ChainCheck:
    """The state of a check between two batches of links.

    `before`: the head before the first link that is fed. `anchors`: heads kept elsewhere that must be on the chain.
    """

    def __init__(self, chain: str, before: Head = NO_LINKS, anchors: Iterable[Head] = ()) -> None:
        self.chain, self.end = chain, before
        self.links = self.leaves = 0
        self._anchors: dict[int, set[bytes]] = {}
        for anchor in anchors:
            if anchor.seq > before.seq:
                self._anchors.setdefault(anchor.seq, set()).add(anchor.hash)
        self._siblings: frozenset[bytes] = frozenset()
        """Hashes of further links with the sequence number of `end`."""
        self._prev = b""

    def feed(self, rows: Iterable[LinkRow]) -> list[ChainFault]:
        """The faults of the next links. This loop runs once for each link of a store, so it does nothing else."""
        faults: list[ChainFault] = []
        start = f"holdfast.link.v1\n{self.chain}\n".encode()
        anchors = self._anchors
        last, hash_before = self.end
        for row in rows:
            _, seq, at_ms, prev, root, hash, leaves = row
            try:
                count = leaves.count(b"\n") + 1 if leaves else 0
                computed = sha256(b"\x00" + leaves).digest() if count == 1 else root_of(leaves)
                is_whole = (
                    seq == last + 1
                    and prev == hash_before
                    and computed == root
                    and sha256(b"%b%d\n%d\n%d\n%b%b" % (start, seq, at_ms, count, prev, root)).digest() == hash
                )
            except (TypeError, AttributeError):
                faults.append(
                    ChainFault(self.chain, last + 1, "malformed", "a stored value of the link has the wrong type")
                )
                continue
            self.links += 1
            self.leaves += count
            if not is_whole or seq in anchors:
                self.end = Head(last, hash_before)
                faults += self._examine(row, count, computed)
                last, hash_before = self.end
            else:
                last, hash_before = seq, hash
            self._prev = prev
        self.end = Head(last, hash_before)
        return faults

    def finish(self, head: Head | None) -> list[ChainFault]:
        """The faults of the chain's end. `head`: where it ends according to the store, None if that has no record."""
        first, chain = self.end.seq + 1, self.chain
        faults = []
        if head is None:
            faults.append(
                ChainFault(chain, self.end.seq, "no_head", "the store has no record of where this chain ends")
            )
        elif head.seq > self.end.seq:
            faults.append(
                ChainFault(chain, first, "cut", f"missing up to link {head.seq}, where the store ends the chain")
            )
        elif head.seq < self.end.seq:
            message = f"the chain continues after link {head.seq}, where the store ends it"
            faults.append(ChainFault(chain, head.seq + 1, "edited_head", message))
        elif head.hash != self.end.hash and head.hash not in self._siblings:
            faults.append(
                ChainFault(chain, head.seq, "edited_head", "the store records another hash for the last link")
            )
        if beyond := sorted(seq for seq in self._anchors if seq >= first):
            message = (
                f"missing up to link {beyond[-1]}, which an exported head names: the end was cut off, "
                "or an old copy of the store was restored"
            )
            faults.append(ChainFault(chain, first, "cut", message))
        return faults

    def _examine(self, row: LinkRow, count: int, computed: bytes) -> list[ChainFault]:
        """Describe what is wrong with one link, and move on to it."""
        _, seq, at_ms, prev, root, hash, _ = row
        found = [self._sequence_fault(seq, prev, hash)]
        if computed != root:
            found.append(("edited_leaf", "its leaves do not match its root"))
        if link_hash(self.chain, seq, at_ms, count, prev, root) != hash:
            found.append(("edited_link", "its hash does not match its content"))
        anchored = self._anchors.get(seq)
        if anchored is not None and anchored != {hash}:
            found.append(("rewritten", "an exported head has another hash for this link"))
        faults = [ChainFault(self.chain, seq, *fault) for fault in found if fault is not None]
        if self.end.seq + 1 < seq:
            faults.insert(0, self._gap(seq))
        if seq == self.end.seq:
            self._siblings |= {hash}
        else:
            self.end, self._siblings = Head(seq, hash), frozenset()
        return faults

    def _sequence_fault(self, seq: int, prev: bytes, hash: bytes) -> tuple[str, str] | None:
        last = self.end
        if seq == last.seq:
            if hash == last.hash or hash in self._siblings:
                return "duplicate", "the same link is stored twice"
            return "fork", "another link has the same sequence number"
        if seq < last.seq:
            return "misplaced", f"it follows link {last.seq}"
        if seq > last.seq + 1 or prev == last.hash or prev in self._siblings:
            return None
        if prev == self._prev:
            return "fork", f"it follows the same link as link {last.seq}"
        return "broken_link", "its prev is not the hash of the previous link"

    def _gap(self, seq: int) -> ChainFault:
        first, last = self.end.seq + 1, seq - 1
        missing = f"link {first} is" if first == last else f"links {first} to {last} are"
        return ChainFault(self.chain, first, "gap", f"{missing} missing")


def link_hash(chain: str, seq: int, at_ms: int, count: int, prev: bytes, root: bytes) -> bytes:
    return sha256(f"holdfast.link.v1\n{chain}\n{seq}\n{at_ms}\n{count}\n".encode() + prev + root).digest()


def root_of(leaves: bytes) -> bytes:
    """The Merkle root of the lines of one link."""
    return merkle_root([sha256(b"\x00" + line).digest() for line in leaves.split(b"\n")]) if leaves else GENESIS


def merkle_root(level: list[bytes]) -> bytes:
    if not level:
        return GENESIS
    while len(level) > 1:
        paired = [sha256(b"\x01" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
        if len(level) % 2:
            paired.append(level[-1])
        level = paired
    return level[0]

"""Receipt: a hash-linked record of what happened. One link per settle transaction, one leaf per transition.

A leaf is one line of canonical JSON. A link binds the leaves' Merkle root to the link before it:

    leaf  = SHA-256(0x00 || line)
    node  = SHA-256(0x01 || left || right)          an odd node moves up unchanged
    link  = SHA-256("holdfast.link.v1\\n" chain "\\n" seq "\\n" at "\\n" count "\\n" prev root)

A chain reveals edits and removals in its middle. A cut tail or a rewritten chain is revealed only by a head that was
exported elsewhere: `verify` takes such heads and reports contradictions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from holdfast.domain.json_value import Json

GENESIS = bytes(32)

_quote = json.encoder.encode_basestring_ascii


class Head(NamedTuple):
    """The end of a chain: sequence number and hash of its last link (0 and zeros before the first)."""

    seq: int
    hash: bytes


NO_LINKS = Head(0, GENESIS)


@dataclass(frozen=True, slots=True)
class Link:
    """One receipt. `leaves` are lines joined by newlines, exactly as they were hashed."""

    chain: str
    seq: int
    at_ms: int
    prev: bytes
    root: bytes
    hash: bytes
    leaves: bytes

    @property
    def count(self) -> int:
        return self.leaves.count(b"\n") + 1 if self.leaves else 0


class ChainFault(NamedTuple):
    """One fault of a chain: its position, kind and description."""

    chain: str
    seq: int
    kind: str
    message: str

    def as_dict(self) -> dict[str, Json]:
        return self._asdict()


Leaf = tuple[int, int, str, str, str | None, int]
"""delivery, generation, event id, state, reason, attempts."""


def leaf_lines(leaves: Iterable[Leaf], at_ms: int, actor: str) -> list[bytes]:
    """The canonical lines of the transitions of one transaction. They contain ids and names, never a payload."""
    start = f'{{"actor":{_quote(actor)},"at":{at_ms},"attempts":'
    lines = []
    for delivery, generation, event_id, state, reason, attempts in leaves:
        why = "null" if reason is None else f'"{reason}"'
        lines.append(
            f'{start}{attempts},"delivery":{delivery},"event":{_quote(event_id)},"generation":{generation},'
            f'"reason":{why},"state":"{state}"}}'.encode()
        )
    return lines


def link(chain: str, head: Head, at_ms: int, lines: list[bytes]) -> Link:
    """The next link of a chain."""
    root = merkle_root([sha256(b"\x00" + line).digest() for line in lines])
    seq = head.seq + 1
    return Link(
        chain, seq, at_ms, head.hash, root,
        link_hash(chain, seq, at_ms, len(lines), head.hash, root), b"\n".join(lines),
    )  # fmt: skip


def link_hash(chain: str, seq: int, at_ms: int, count: int, prev: bytes, root: bytes) -> bytes:
    return sha256(f"holdfast.link.v1\n{chain}\n{seq}\n{at_ms}\n{count}\n".encode() + prev + root).digest()


def merkle_root(level: list[bytes]) -> bytes:
    if not level:
        return GENESIS
    while len(level) > 1:
        paired = [sha256(b"\x01" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
        if len(level) % 2:
            paired.append(level[-1])
        level = paired
    return level[0]


def proof(leaves: list[bytes], index: int) -> list[tuple[str, bytes]]:
    """The Merkle path from one leaf to the root: the sibling at each level, and its side."""
    level, path = [sha256(b"\x00" + line).digest() for line in leaves], []
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            path.append(("right" if sibling > index else "left", level[sibling]))
        paired = [sha256(b"\x01" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
        if len(level) % 2:
            paired.append(level[-1])
        level, index = paired, index // 2
    return path


def proves(line: bytes, path: Iterable[tuple[str, bytes]], root: bytes) -> bool:
    digest = sha256(b"\x00" + line).digest()
    for side, sibling in path:
        pair = digest + sibling if side == "right" else sibling + digest
        digest = sha256(b"\x01" + pair).digest()
    return digest == root


def verify(
    links: Iterable[Link],
    heads: Mapping[str, Head] | None = None,
    anchors: Iterable[tuple[str, Head]] = (),
    before: Mapping[str, Head] | None = None,
) -> Iterator[ChainFault]:
    """Every fault in the given chains, not only the first.

    `links` are ordered by chain and seq. `heads`: the end of each chain according to the store. `anchors`: heads that
    were exported elsewhere and must be part of the chain. `before`: the end of each chain before `links`.
    """
    expected: dict[str, dict[int, set[bytes]]] = {}
    for chain, anchor in anchors:
        expected.setdefault(chain, {}).setdefault(anchor.seq, set()).add(anchor.hash)
    ends: dict[str, Head] = dict(before or {})
    for item in links:
        yield from _link_faults(item, ends.get(item.chain, NO_LINKS))
        anchored = expected.get(item.chain, {}).pop(item.seq, None)
        if anchored is not None and anchored != {item.hash}:
            yield ChainFault(item.chain, item.seq, "rewritten", "an exported head has another hash for this link")
        ends[item.chain] = Head(item.seq, item.hash)
    for chain, head in (heads or {}).items():
        if ends.get(chain, NO_LINKS) != head:
            yield ChainFault(chain, head.seq, "cut", "the chain does not end at the head in the store")
    for chain, missing in expected.items():
        for seq in sorted(missing):
            if seq > 0:
                yield ChainFault(chain, seq, "cut", "an exported head names a link that is missing")


def _link_faults(item: Link, before: Head) -> Iterator[ChainFault]:
    if item.seq != before.seq + 1:
        yield ChainFault(item.chain, item.seq, "gap", f"link {before.seq + 1} is missing before it")
    elif item.prev != before.hash:
        yield ChainFault(item.chain, item.seq, "broken_link", "its prev is not the hash of the previous link")
    lines = item.leaves.split(b"\n") if item.leaves else []
    root = merkle_root([sha256(b"\x00" + line).digest() for line in lines])
    if root != item.root:
        yield ChainFault(item.chain, item.seq, "edited_leaf", "its leaves do not match its root")
    if link_hash(item.chain, item.seq, item.at_ms, len(lines), item.prev, item.root) != item.hash:
        yield ChainFault(item.chain, item.seq, "edited_link", "its hash does not match its content")

"""Receipt: a hash-linked record of what happened. One link per settle transaction, one leaf per transition.

A leaf is one line of canonical JSON: a transition of a delivery, or an action such as a prune. A link binds
the leaves' Merkle root to the link before it:

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

from holdfast.domain.canonical import dump_json
from holdfast.domain.chain_check import (
    NO_LINKS,
    ChainCheck,
    ChainFault,
    Head,
    LinkRow,
    link_hash,
    merkle_root,
)
from holdfast.domain.json_value import Json

__all__ = [
    "NO_LINKS", "ChainFault", "Head", "Leaf", "Link", "action_line", "contract_lines", "id_ranges", "leaf_lines",
    "link", "proof", "proves", "some_of", "verify",
]  # fmt: skip

ACTION_MAX = 256 * 1024
NAMES_MAX = 200

_quote = json.encoder.encode_basestring_ascii


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

    def as_row(self) -> LinkRow:
        return self.chain, self.seq, self.at_ms, self.prev, self.root, self.hash, self.leaves

    @property
    def count(self) -> int:
        return self.leaves.count(b"\n") + 1 if self.leaves else 0


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


def action_line(action: str, at_ms: int, actor: str, **details: Json) -> bytes:
    """The canonical line of something other than a transition of a delivery, such as a pause or a prune."""
    return dump_json({"action": action, "actor": actor, "at": at_ms, **details}, "receipt", ACTION_MAX)


def contract_lines(
    action: str, at_ms: int, actor: str, put: Mapping[str, str], gone: Iterable[str], **details: Json
) -> list[bytes]:
    """The canonical lines of a change of many contracts: the digests of those put, and those that are gone.

    Each line holds some of them, so that a link names all, however many there are.
    """
    changes: list[tuple[str, str | None]] = [*put.items(), *((id, None) for id in gone)]
    parts = [changes[at : at + NAMES_MAX] for at in range(0, len(changes), NAMES_MAX)] or [[]]
    return [action_line(action, at_ms, actor, contracts=dict(part), **details) for part in parts]


def some_of(names: Iterable[str]) -> Json:
    """Names as a receipt lists them: their number, and the first ones."""
    every = list(names)
    return {"count": len(every), "first": list[Json](every[:NAMES_MAX])}


def id_ranges(ids: Iterable[int]) -> list[Json]:
    """Ids as ranges of consecutive ones, both ends included.

    >>> id_ranges([7, 1, 2, 3])
    [[1, 3], [7, 7]]
    """
    ranges: list[list[int]] = []
    for id in sorted(set(ids)):
        if ranges and id == ranges[-1][1] + 1:
            ranges[-1][1] = id
        else:
            ranges.append([id, id])
    return [[first, last] for first, last in ranges]


def link(chain: str, head: Head, at_ms: int, lines: list[bytes]) -> Link:
    """The next link of a chain."""
    root = merkle_root([sha256(b"\x00" + line).digest() for line in lines])
    seq = head.seq + 1
    return Link(
        chain, seq, at_ms, head.hash, root,
        link_hash(chain, seq, at_ms, len(lines), head.hash, root), b"\n".join(lines),
    )  # fmt: skip


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
    checks: dict[str, ChainCheck] = {}
    anchored: dict[str, list[Head]] = {}
    for chain, anchor in anchors:
        anchored.setdefault(chain, []).append(anchor)

    def check_of(chain: str) -> ChainCheck:
        if chain not in checks:
            checks[chain] = ChainCheck(chain, (before or {}).get(chain, NO_LINKS), anchored.get(chain, ()))
        return checks[chain]

    for item in links:
        yield from check_of(item.chain).feed([item.as_row()])
    for chain in dict.fromkeys([*anchored, *(heads or {})]):
        check = check_of(chain)
        yield from check.finish((heads or {}).get(chain, check.end))

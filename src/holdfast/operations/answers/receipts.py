"""Answers about receipts."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.domain.event import iso_time
from holdfast.domain.receipt import Link
from holdfast.operations.answers.fields import HexDigest, Time


@dataclass(frozen=True, slots=True)
class ReceiptLink:
    """One link of a chain. `h_prev` and `h_self` are its hashes, `root` that of the transitions it records."""

    chain: str
    seq: int
    at: Time
    h_prev: HexDigest
    h_self: HexDigest
    root: HexDigest
    transitions: int


@dataclass(frozen=True, slots=True)
class ReceiptFault:
    """Something that is wrong with a chain, at one link."""

    chain: str
    seq: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class VerifiedReceipts:
    """What a check of all chains found. `ok`: there are no faults."""

    ok: bool
    chains: int
    links: int
    transitions: int
    faults: list[ReceiptFault]


def receipt_link(link: Link) -> ReceiptLink:
    return ReceiptLink(
        chain=link.chain,
        seq=link.seq,
        at=iso_time(link.at_ms),
        h_prev=link.prev.hex(),
        h_self=link.hash.hex(),
        root=link.root.hex(),
        transitions=link.count,
    )

"""Answers about receipts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.domain.event import iso_time
from holdfast.domain.receipt import Link
from holdfast.ledger.verifier import Verification
from holdfast.operations.answers.fields import HexDigest, Time, time_or_none
from holdfast.store.roles.receipts import ChainEnd, CheckedChain, StoredReceipt, SubstrateRow


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
    """Something that is wrong with a chain, at one link. `delivery`: the delivery that differs from its receipts.

    A delivery that has no receipt at all has no link either: `chain` is then empty and `seq` 0.
    """

    chain: str
    seq: int
    kind: str
    message: str
    delivery: int | None


@dataclass(frozen=True, slots=True)
class VerifiedReceipts:
    """What a check of the chains found. `ok`: there are no faults.

    `anchors`: the exported heads that were compared. `rows`: the deliveries that were compared with their receipts;
    null: not asked for. `complete`: false if the check stopped because there were too many faults.
    """

    ok: bool
    chains: int
    links: int
    transitions: int
    anchors: int
    rows: int | None
    complete: bool
    faults: list[ReceiptFault]


@dataclass(frozen=True, slots=True)
class ReceiptPlace:
    """Where a receipt stands on the chain `substrate`."""

    id: str
    chain_seq: int
    h_self: HexDigest


@dataclass(frozen=True, slots=True)
class AppendedReceipt:
    """A receipt of another system that is stored. `duplicate`: its source tuple had one before, which is this one.

    `differs`: that one has another content, so what was sent now is recorded nowhere.
    """

    ok: bool
    duplicate: bool
    differs: bool
    receipt: ReceiptPlace


@dataclass(frozen=True, slots=True)
class SubstrateReceiptAnswer:
    """A receipt of another system. The last three are null if its link is missing from the chain."""

    id: str
    tenant_id: str | None
    source_system: str
    source_table: str
    source_id: str
    source_version: str | None
    action_type: str
    actor_id: str
    actor_kind: str
    input_hash: HexDigest
    output_hash: HexDigest
    references: object
    chain_seq: int
    prev_receipt_h_self: HexDigest | None
    h_self: HexDigest | None
    at: Time | None


@dataclass(frozen=True, slots=True)
class ExportedReceipts:
    """A folder with all receipts, and how many it holds."""

    folder: str
    chains: int
    links: int
    heads: int


@dataclass(frozen=True, slots=True)
class ReceiptKeys:
    """The public keys that sign heads of receipt chains, the newest last."""

    keys: list[str]


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The last link of a chain. `h_self`: null if the store has no record of where the chain ends.

    `checked_to`: the link up to which the last check verified it, at `checked_at`; null: never. `faults`: how many that
    check found, and `fault` the first of them.
    """

    chain: str
    seq: int
    h_self: HexDigest | None
    checked_to: int | None
    checked_at: Time | None
    faults: int
    fault: ReceiptFault | None


@dataclass(frozen=True, slots=True)
class CheckedReceipts:
    """When the chains were last verified, null: never; how many faults were found, and the first of them."""

    checked_at: Time | None
    faults: int
    fault: ReceiptFault | None


@dataclass(frozen=True, slots=True)
class ChainHeads:
    """The last link of each chain."""

    items: list[ChainHead]


def appended_receipt(stored: StoredReceipt) -> AppendedReceipt:
    place = ReceiptPlace(stored.id, stored.chain_seq, stored.hash.hex())
    return AppendedReceipt(True, stored.duplicate, stored.differs, place)


def substrate_receipt(row: SubstrateRow) -> SubstrateReceiptAnswer:
    return SubstrateReceiptAnswer(
        id=row.id,
        tenant_id=row.tenant_id,
        source_system=row.source_system,
        source_table=row.source_table,
        source_id=row.source_id,
        source_version=row.source_version or None,
        action_type=row.action_type,
        actor_id=row.actor_id,
        actor_kind=row.actor_kind,
        input_hash=row.input_hash,
        output_hash=row.output_hash,
        references=json.loads(row.references_json),
        chain_seq=row.chain_seq,
        prev_receipt_h_self=None if row.prev is None else row.prev.hex(),
        h_self=None if row.hash is None else row.hash.hex(),
        at=time_or_none(row.at_ms),
    )


def chain_head(end: ChainEnd, checked: CheckedChain | None) -> ChainHead:
    fault = None if checked is None or checked.fault is None else ReceiptFault(*checked.fault)
    return ChainHead(
        chain=end.chain,
        seq=end.last if end.head is None else end.head.seq,
        h_self=None if end.head is None else end.head.hash.hex(),
        checked_to=None if checked is None else checked.checked_to,
        checked_at=None if checked is None else iso_time(checked.checked_at_ms),
        faults=0 if checked is None else checked.faults,
        fault=fault,
    )


def checked_receipts(records: Sequence[CheckedChain]) -> CheckedReceipts:
    fault = next((record.fault for record in records if record.fault is not None), None)
    return CheckedReceipts(
        checked_at=time_or_none(max((record.checked_at_ms for record in records), default=None)),
        faults=sum(record.faults for record in records),
        fault=None if fault is None else ReceiptFault(*fault),
    )


def verified_receipts(found: Verification) -> VerifiedReceipts:
    return VerifiedReceipts(
        ok=found.ok,
        chains=found.chains,
        links=found.links,
        transitions=found.transitions,
        anchors=found.anchors,
        rows=found.rows,
        complete=found.complete,
        faults=[ReceiptFault(*fault) for fault in found.faults],
    )


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

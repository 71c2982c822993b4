"""Receipts: the hash-linked chains of everything that ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from holdfast.domain.chain_check import ChainFault, Head, LinkRow
from holdfast.domain.receipt import Link
from holdfast.domain.substrate_receipt import SubstrateReceipt


class ChainEnd(NamedTuple):
    """Where a chain ends. `head`: as the store records it, None if it does not; `last`: its last link, 0 if none."""

    chain: str
    head: Head | None
    last: int


class CheckedChain(NamedTuple):
    """How far a chain was verified, when, and the first of the faults that were found.

    A fault that belongs to no chain, such as a delivery without a receipt, is recorded for a chain without a name.
    """

    chain: str
    checked_at_ms: int
    checked_to: int
    faults: int = 0
    fault: ChainFault | None = None


class StatusRow(NamedTuple):
    """How a delivery stands. `event`: the id of its event, None if that is missing."""

    id: int
    generation: int
    attempts: int
    state: str
    reason: str | None
    event: str | None


class Statuses(NamedTuple):
    """Deliveries in order of their ids, and the sequence number at which each chain ended at that moment."""

    ends: Mapping[str, int]
    rows: Sequence[StatusRow]


class ContractState(NamedTuple):
    """A contract as it is stored. `digest`: SHA-256 of its stored form, in hex."""

    id: str
    digest: str
    active: bool
    removed: bool


class TokenState(NamedTuple):
    """An API token as it is stored."""

    id: str
    scope: str
    revoked: bool


class PauseState(NamedTuple):
    """A pause as it is stored."""

    scope: str
    name: str
    since_ms: int


class OperatorState(NamedTuple):
    """What operators have set, of one moment. `ends`: the sequence number at which each chain ended at that moment."""

    ends: Mapping[str, int]
    contracts: Sequence[ContractState]
    tokens: Sequence[TokenState]
    pauses: Sequence[PauseState]


class StoredReceipt(NamedTuple):
    """A receipt of another system. `duplicate`: its source tuple had one before; `differs`: with another content."""

    id: str
    chain_seq: int
    hash: bytes
    duplicate: bool = False
    differs: bool = False


class SubstrateRow(NamedTuple):
    """A receipt of another system as it is listed. The last three are None if its link is missing."""

    chain_seq: int
    id: str
    source_system: str
    source_table: str
    source_id: str
    action_type: str
    source_version: str
    tenant_id: str | None
    actor_id: str
    actor_kind: str
    input_hash: str
    output_hash: str
    references_json: str
    at_ms: int | None
    prev: bytes | None
    hash: bytes | None


@dataclass(frozen=True, slots=True)
class SubstrateFilter:
    """Every given field must match."""

    source_system: str | None = None
    source_table: str | None = None
    source_id: str | None = None
    action_type: str | None = None
    tenant_id: str | None = None


class Receipts(Protocol):
    """The receipt chains. Links about deliveries are written by the transactions that they describe."""

    async def append(self, receipt: SubstrateReceipt, id: str, written_by: str) -> StoredReceipt:
        """Append a receipt of another system to the shared chain, unless its source tuple has one.

        Raises `ChainContention` if the next place of the chain is taken; a second try may succeed.
        """

    async def substrate(self, wanted: SubstrateFilter, after: int, last: int, limit: int) -> list[SubstrateRow]:
        """Receipts of other systems after one number and up to another, in order."""

    async def heads(self) -> dict[str, Head]:
        """The newest link of each chain."""

    async def ends(self) -> list[ChainEnd]:
        """Where each chain ends, also chains without a record of their end. All of one moment."""

    async def links(self, chain: str | None, after: tuple[str, int], limit: int) -> list[Link]:
        """Links after (chain, seq), in order, of one chain or of all."""

    async def rows(self, chain: str, first: int, last: int, limit: int) -> Sequence[LinkRow]:
        """Links of a chain from `first` to `last`, in order, as they are stored. A sequence number may occur twice."""

    async def at(self, moments_ms: Sequence[int], limit: int) -> list[Link]:
        """The links written at these times, in the order of time."""

    async def statuses(self, after: int, limit: int) -> Statuses:
        """How the deliveries after this id stand, together with the ends of the chains at the same moment."""

    async def operator_state(self) -> OperatorState:
        """Contracts, removed ones too, tokens and pauses, together with the ends of the chains at the same moment."""

    async def delivery_span(self) -> tuple[int, int]:
        """The lowest id of a stored delivery and the highest that was used, as far as is known. Zeros: none."""

    async def record_checked(self, records: Sequence[CheckedChain], forget: bool = False) -> None:
        """Record how far chains were verified. `forget`: the records of all other chains are removed."""

    async def checked(self) -> list[CheckedChain]:
        """How far each chain was verified, by chain. One that never was is not listed."""

    def every(self) -> AsyncIterator[list[Link]]:
        """All links of all chains, in batches."""

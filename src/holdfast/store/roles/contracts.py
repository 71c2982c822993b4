"""Contracts: which events go where, with their secrets and queues."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from holdfast.domain.contract import Contract
from holdfast.store.roles.owners import Actor


class QueueRow(NamedTuple):
    """The queue of one contract, or of one direct address (`contract_id` None)."""

    id: int
    contract_id: str | None
    address: str
    kind: str
    paused: bool
    parked: bool
    served_at_ms: int


class ContractSecrets(NamedTuple):
    """The secret parts of a contract: its signing secrets, newest first, and the values of its headers.

    `until_ms`: when the first of the secrets ends, so that this must be read again.
    """

    secrets: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    until_ms: int | None = None


class ContractInput(NamedTuple):
    """A contract together with its secret parts, as one source provides it."""

    contract: Contract
    secret: str | None = None
    headers: Mapping[str, str] | None = None


class ContractChange(NamedTuple):
    """A contract after a change (None: removed) and its queue."""

    id: str
    contract: Contract | None
    queue: int | None


class Contracts(Protocol):
    """The stored contracts. Every change increments one version, which the router checks in its own transaction.

    `by`: who makes the change; the receipt of it is written in the same transaction. None: no receipt.
    """

    async def put(
        self,
        contract: Contract,
        secret: str | None,
        *,
        headers: Mapping[str, str] | None = None,
        keep: bool = False,
        by: Actor | None = None,
    ) -> None:
        """Create or replace a contract. `keep` preserves its secrets and whether it is active, for use at start-up."""

    async def register(
        self, modules: Collection[str], contracts: Sequence[Contract], *, alone: bool, by: Actor | None = None
    ) -> list[str]:
        """Store the contracts of an application's code; returns the ids of contracts that were retired.

        A contract that one of these modules registered before and does not register now is retired: it is disabled
        and its deliveries are parked, until code registers it again or it is removed. It is not retired while another
        process may still serve it, as during a rolling deployment; `alone` means that there is none. Secrets, and
        whether an operator disabled a contract, are preserved.
        """

    async def with_private_keys(self) -> list[str]:
        """The ids of contracts that sign with a private key."""

    async def adopt(self, digest: str, registered: Sequence[ContractInput], *, by: Actor | None = None) -> bool:
        """Make these the contracts of source `config`, and no others. False: this digest is in force already."""

    async def digest(self) -> str | None:
        """The digest given to the last `adopt`: which configuration's contracts are in force."""

    async def get(self, id: str) -> Contract | None:
        """One contract by its id; None once it is removed."""

    async def all(self, inactive: bool = False) -> list[Contract]:
        """All active contracts; with `inactive`, the disabled ones too."""

    async def remove(self, id: str, *, by: Actor | None = None) -> bool:
        """Remove a contract and its secrets; its pending deliveries are dropped later. False: there is none."""

    async def set_active(self, id: str, active: bool, *, by: Actor | None = None) -> bool:
        """Disable a contract, which parks its pending deliveries, or enable it again. True where that changed it."""

    async def retire(self, id: str, *, by: Actor | None = None) -> bool:
        """End a contract whose time is over: it matches no more, and pending deliveries are still delivered."""

    async def rotate(self, id: str, secret: str, overlap_ms: int, *, by: Actor | None = None) -> bool:
        """Sign with a new secret; the old ones stay valid for `overlap_ms`. False: there is no such contract."""

    async def private(self, id: str) -> ContractSecrets:
        """The secret parts of a contract that are valid now."""

    async def signing(self) -> frozenset[str]:
        """The ids of contracts that have a valid signing secret now."""

    async def version(self) -> int:
        """The version that the last change led to."""

    async def changed(self, since: int) -> list[ContractChange]:
        """Contracts put, removed, enabled, disabled or given another secret after that version, each once."""

    async def queues(self) -> list[QueueRow]:
        """The queues of all contracts and direct addresses."""

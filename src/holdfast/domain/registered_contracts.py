"""Contracts that an application registers in code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.domain.contract import Contract, for_session
from holdfast.domain.errors import BadInput


@dataclass(frozen=True, slots=True)
class ContractWithHeaders(Contract):
    """A contract that code registers together with the values of its headers. They are stored apart, like a secret."""

    header_values: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


def header_values(contract: Contract) -> Mapping[str, str] | None:
    """The values of a contract's headers, if it carries them."""
    return contract.header_values if isinstance(contract, ContractWithHeaders) else None


class RegisteredContracts:
    """The contracts that an application registers in code. They are stored when its workers or the daemon start."""

    def __init__(self, registered_by: str) -> None:
        self._registered_by = registered_by
        self._contracts: dict[str, Contract] = {}

    def register(self, contract: Contract) -> None:
        if contract.address.kind == "session":
            if contract.senders is None:
                raise BadInput(f"contract {contract.id!r} is for a session: give it senders=parse_senders({{…}})")
            contract = for_session(contract, contract.senders, contract.template, contract.rate)
        registered_by = contract.registered_by or self._registered_by
        self._contracts[contract.id] = replace(contract, source="programmatic", registered_by=registered_by)

    def all(self) -> list[Contract]:
        return list(self._contracts.values())

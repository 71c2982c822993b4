"""Misconfigured contracts: a stored contract needs something that this process does not have.

A contract is stored under one configuration and read under another: a policy may have been removed from the file, a
format may come from a newer version. The deliveries of such a contract stay queued; other contracts are not affected.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.contract import FORMATS, Contract, parse_rate
from holdfast.domain.errors import BadInput
from holdfast.domain.retry import Policy
from holdfast.domain.text import short_repr


def misconfiguration(contract: Contract, policies: Mapping[str, Policy]) -> str | None:
    """The first problem, in one clause; None if the contract is usable.

    >>> from holdfast.domain.address import parse_address
    >>> misconfiguration(Contract("c", parse_address("handler:h"), policy="slow"), {})
    "policy 'slow' is not defined here"
    """
    if contract.fault is not None:
        return contract.fault
    if contract.policy_name not in policies:
        return f"policy {short_repr(contract.policy_name)} is not defined here"
    if contract.format is not None and contract.format not in FORMATS:
        return f"format {short_repr(contract.format)} is unknown to this version"
    if contract.rate is not None:
        try:
            parse_rate(contract.rate)
        except BadInput as error:
            return error.message
    return None

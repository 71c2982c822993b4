"""What a stored contract needs and this process does not have.

A contract is stored under one configuration and read under another: a policy may have been removed from the file, a
format may come from a newer version. Such a contract is misconfigured. Its deliveries wait, everything else goes on.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.contract import FORMATS, Contract, parse_rate
from holdfast.domain.errors import BadInput
from holdfast.domain.retry import Policy
from holdfast.domain.text import short_repr


def misconfiguration(contract: Contract, policies: Mapping[str, Policy]) -> str | None:
    """The first thing that is missing, in one clause; None where nothing is.

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

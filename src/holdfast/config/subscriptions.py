"""The subscriptions of the configuration file: checked when it is read, stored when the daemon starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from holdfast.config.contract_form import read_subscription
from holdfast.domain.errors import BadConfig, BadInput
from holdfast.domain.retry import Policy
from holdfast.net.guard import Guard
from holdfast.store.roles.contracts import ContractInput, Contracts
from holdfast.store.roles.owners import Actor


def read_subscriptions(
    values: Sequence[object], policies: Mapping[str, Policy], now_ms: int, guard: Guard | None = None
) -> list[ContractInput]:
    """All entries, or an error with the position of the first mistake.

    `guard` refuses targets that not even the configuration file may allow. Host names are resolved only when sending.
    """
    found: dict[str, ContractInput] = {}
    for number, value in enumerate(values, start=1):
        name = value.get("id") if isinstance(value, Mapping) else None
        where = f"hooks.subscriptions: entry {number}" + (f" ({name})" if isinstance(name, str) else "")
        try:
            registered = read_subscription(value, policies, now_ms)
            if guard is not None and registered.contract.address.kind == "https":
                guard.check_url(registered.contract.address.text, trusted=True)
        except BadInput as error:
            raise BadConfig(f"{where}: {error.message}") from None
        if registered.contract.id in found:
            raise BadConfig(f"{where}: duplicate id")
        found[registered.contract.id] = registered
    return list(found.values())


async def adopt(
    contracts: Contracts,
    values: Sequence[object],
    policies: Mapping[str, Policy],
    now_ms: int,
    *,
    by: Actor | None = None,
) -> str | None:
    """Replace the contracts of source `config` by these. Returns their digest, or None if there never were any."""
    if not values and await contracts.digest() is None:
        return None
    digest = hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()
    await contracts.adopt(digest, read_subscriptions(values, policies, now_ms), by=by)
    return digest

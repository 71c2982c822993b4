"""How the requests of a contract look: its secrets, headers, format, and the statuses it retries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from holdfast.domain.contract import Contract
from holdfast.ports import Clock
from holdfast.store.roles.contracts import ContractSecrets

CACHED_MAX = 10_000
SECRETS_MAX = 10  # secrets that sign one request; older ones of a contract that is rotated often sign no more


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Secrets (newest first), headers and body format of a contract's requests.

    `retry_on` holds 4xx statuses that are retried although they would end the delivery by default. `hidden` holds
    every form of a secret or header value, to be masked wherever a receiver sends one back.
    """

    secrets: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    template: str | None = None
    retry_on: frozenset[int] = frozenset()
    hidden: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        given = (*self.secrets, *self.headers.values())
        forms = (form for text in given for form in (text, text.removeprefix("whsec_").removeprefix("whsk_")))
        object.__setattr__(self, "hidden", tuple(dict.fromkeys(filter(None, forms))))


UNSIGNED = RequestOptions()
"""For events sent to a direct address, without a contract."""


class ContractSource(Protocol):
    """Contracts and their private parts, as of the version in force."""

    def contract(self, contract_id: str) -> Contract | None: ...
    async def private(self, contract_id: str, now_ms: int) -> ContractSecrets: ...


class _Cached(NamedTuple):
    """Options, and the values they were made of. They are valid as long as the registry returns the same two."""

    private: ContractSecrets
    contract: Contract | None
    options: RequestOptions


class ContractRequests:
    """Request options by contract. They are computed once per version of a contract, not once per attempt."""

    def __init__(self, contracts: ContractSource, clock: Clock) -> None:
        self._contracts, self._clock = contracts, clock
        self._cache: dict[str, _Cached] = {}

    async def options(self, contract_id: str) -> RequestOptions:
        private = await self._contracts.private(contract_id, self._clock.now_ms())
        contract = self._contracts.contract(contract_id)
        cached = self._cache.get(contract_id)
        if cached is None or cached.private is not private or cached.contract is not contract:
            if len(self._cache) >= CACHED_MAX:
                self._cache.clear()
            cached = self._cache[contract_id] = _Cached(private, contract, request_options(private, contract))
        return cached.options


def request_options(private: ContractSecrets, contract: Contract | None) -> RequestOptions:
    """The options of one contract. A removed contract still signs its remaining deliveries, in the default format."""
    secrets = private.secrets[:SECRETS_MAX]
    if contract is None:
        return RequestOptions(secrets, private.headers)
    retry_on = frozenset(contract.retry_on)
    return RequestOptions(secrets, private.headers, contract.format, contract.template, retry_on)

"""How a contract's requests look, and when that is computed again."""

from __future__ import annotations

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.egress.webhook.requests import SECRETS_MAX, ContractRequests, request_options
from holdfast.store.roles.contracts import ContractSecrets
from holdfast.testing.clock import ManualClock


class Contracts:
    """A registry with one contract."""

    def __init__(self) -> None:
        self.found: Contract | None = Contract("c", parse_address("https://example.com/"), format="slack")
        self.secrets = ContractSecrets(("one",))
        self.asked_ms: list[int] = []

    def contract(self, contract_id: str) -> Contract | None:
        return self.found

    async def private(self, contract_id: str, now_ms: int) -> ContractSecrets:
        self.asked_ms.append(now_ms)
        return self.secrets


def test_only_the_newest_secrets_sign_however_often_they_were_rotated() -> None:
    private = ContractSecrets(tuple(f"secret-{number}" for number in range(50)))
    assert request_options(private, None).secrets == private.secrets[:SECRETS_MAX]


async def test_options_are_computed_once_until_the_contract_or_its_secrets_change() -> None:
    clock, contracts = ManualClock(), Contracts()
    requests = ContractRequests(contracts, clock)
    first = await requests.options("c")
    assert (first.secrets, first.format) == (("one",), "slack")
    assert await requests.options("c") is first
    contracts.secrets = ContractSecrets(("two", "one"))
    rotated = await requests.options("c")
    assert rotated.secrets == ("two", "one")
    contracts.found = None
    removed = await requests.options("c")
    assert (removed.secrets, removed.format) == (("two", "one"), None)
    assert contracts.asked_ms == [clock.now_ms()] * 4, "an expired secret is left out by the registry, by this time"

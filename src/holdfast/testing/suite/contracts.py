"""Contracts: kept as given, versioned, never with their secret."""

from __future__ import annotations

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.testing.suite.bench import Bench, StoreSuite


class ContractsSuite(StoreSuite):
    async def test_a_contract_is_kept_as_it_was_put(self, bench: Bench) -> None:
        contract = Contract(
            id="orders",
            address=parse_address("https://example.com/hook"),
            source_criterion=Criterion(match="shop"),
            type_criterion=Criterion(match=("a", "b"), pattern="order.*"),
            properties={"project": Criterion(pattern="x*"), "maybe": Criterion(required=False)},
            source="programmatic",
            active=True,
            created_at_ms=5,
            expires_at_ms=9_000_000_000_000,
            policy="patient",
            attempts=3,
            ordered=True,
            timeout_s=2.5,
            concurrency=4,
        )
        await bench.store.contracts.put(contract, None)
        assert await bench.store.contracts.get("orders") == contract
        assert await bench.store.contracts.all() == [contract]

    async def test_every_kind_of_address_survives(self, bench: Bench) -> None:
        for index, to in enumerate(("https://example.com/x?y=1", "http://localhost:1", "handler:m.f", "session:a@b")):
            await bench.contract(f"c{index}", to)
            kept = await bench.store.contracts.get(f"c{index}")
            assert kept is not None
            assert kept.address == parse_address(to)

    async def test_putting_again_changes_the_contract_and_keeps_when_it_was_made(self, bench: Bench) -> None:
        await bench.contract("c", "handler:a")
        made = bench.clock.now_ms()
        bench.clock.advance(60)
        await bench.contract("c", "handler:b")
        kept = await bench.store.contracts.get("c")
        assert kept is not None
        assert (kept.address.text, kept.created_at_ms) == ("handler:b", made)
        assert [queue.address for queue in await bench.store.contracts.queues()] == ["handler:b"]

    async def test_each_change_raises_the_version(self, bench: Bench) -> None:
        versions = [await bench.store.contracts.version()]
        await bench.contract("c")
        versions.append(await bench.store.contracts.version())
        await bench.contract("c", active=False)
        versions.append(await bench.store.contracts.version())
        await bench.store.contracts.remove("c")
        versions.append(await bench.store.contracts.version())
        assert versions == sorted(set(versions))

    async def test_removing_what_is_not_there_is_false_and_changes_nothing(self, bench: Bench) -> None:
        before = await bench.store.contracts.version()
        assert await bench.store.contracts.remove("none") is False
        assert await bench.store.contracts.version() == before

    async def test_a_removed_contract_is_gone_and_can_be_put_again(self, bench: Bench) -> None:
        await bench.contract("c", secret="s")
        assert await bench.store.contracts.remove("c") is True
        assert await bench.store.contracts.remove("c") is False
        assert await bench.store.contracts.get("c") is None
        assert await bench.store.contracts.all(inactive=True) == []
        assert await bench.store.contracts.secrets("c") == []
        await bench.contract("c")
        await bench.send()
        assert len(await bench.claim()) == 1

    async def test_an_inactive_contract_is_listed_only_on_request(self, bench: Bench) -> None:
        await bench.contract("on")
        await bench.contract("off", active=False)
        assert [contract.id for contract in await bench.store.contracts.all()] == ["on"]
        assert [contract.id for contract in await bench.store.contracts.all(inactive=True)] == ["off", "on"]

    async def test_a_secret_is_given_only_to_who_asks_for_it(self, bench: Bench) -> None:
        await bench.contract("c", secret="canary-secret")
        assert await bench.store.contracts.secrets("c") == ["canary-secret"]
        assert "canary-secret" not in repr(await bench.store.contracts.all())
        await bench.contract("c", secret=None)
        assert await bench.store.contracts.secrets("c") == []

    async def test_a_contract_has_one_queue_for_ever(self, bench: Bench) -> None:
        await bench.contract("c")
        first = await bench.store.contracts.queues()
        await bench.contract("c", active=False)
        await bench.contract("c")
        assert [(queue.id, queue.contract_id, queue.kind) for queue in await bench.store.contracts.queues()] == [
            (first[0].id, "c", "handler")
        ]

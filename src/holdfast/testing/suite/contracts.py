"""Contracts: stored as given, versioned, listed without their secrets."""

from __future__ import annotations

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.delivery import Delivered
from holdfast.store.roles.contracts import ContractInput
from holdfast.testing.suite.harness import Harness, StoreSuite


class ContractsSuite(StoreSuite):
    async def test_a_contract_is_kept_as_it_was_put(self, harness: Harness) -> None:
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
        await harness.store.contracts.put(contract, None)
        assert await harness.store.contracts.get("orders") == contract
        assert await harness.store.contracts.all() == [contract]

    async def test_every_kind_of_address_survives(self, harness: Harness) -> None:
        for index, to in enumerate(("https://example.com/x?y=1", "http://localhost:1", "handler:m.f", "session:a@b")):
            await harness.contract(f"c{index}", to)
            kept = await harness.store.contracts.get(f"c{index}")
            assert kept is not None
            assert kept.address == parse_address(to)

    async def test_putting_again_changes_the_contract_and_keeps_its_creation_time(self, harness: Harness) -> None:
        await harness.contract("c", "handler:a")
        made = harness.clock.now_ms()
        harness.clock.advance(60)
        await harness.contract("c", "handler:b")
        kept = await harness.store.contracts.get("c")
        assert kept is not None
        assert (kept.address.text, kept.created_at_ms) == ("handler:b", made)
        assert [queue.address for queue in await harness.store.contracts.queues()] == ["handler:b"]

    async def test_each_change_raises_the_version(self, harness: Harness) -> None:
        versions = [await harness.store.contracts.version()]
        await harness.contract("c")
        versions.append(await harness.store.contracts.version())
        await harness.contract("c", active=False)
        versions.append(await harness.store.contracts.version())
        await harness.store.contracts.remove("c")
        versions.append(await harness.store.contracts.version())
        assert versions == sorted(set(versions))

    async def test_removing_an_unknown_contract_is_false_and_changes_nothing(self, harness: Harness) -> None:
        before = await harness.store.contracts.version()
        assert await harness.store.contracts.remove("none") is False
        assert await harness.store.contracts.version() == before

    async def test_a_removed_contract_is_gone_and_can_be_put_again(self, harness: Harness) -> None:
        await harness.contract("c", secret="s")
        assert await harness.store.contracts.remove("c") is True
        assert await harness.store.contracts.remove("c") is False
        assert await harness.store.contracts.get("c") is None
        assert await harness.store.contracts.all(inactive=True) == []
        assert (await harness.store.contracts.private("c")).secrets == ()
        await harness.contract("c")
        await harness.send()
        assert len(await harness.claim()) == 1

    async def test_an_inactive_contract_is_listed_only_on_request(self, harness: Harness) -> None:
        await harness.contract("on")
        await harness.contract("off", active=False)
        assert [contract.id for contract in await harness.store.contracts.all()] == ["on"]
        assert [contract.id for contract in await harness.store.contracts.all(inactive=True)] == ["off", "on"]

    async def test_which_contracts_have_a_secret_is_known_without_the_secret(self, harness: Harness) -> None:
        for id, secret in (("a", "s"), ("b", None), ("c", "s"), ("d", "s")):
            await harness.contract(id, secret=secret)
        assert await harness.store.contracts.signing() == {"a", "c", "d"}
        await harness.store.contracts.rotate("b", "new", 0)
        await harness.store.contracts.rotate("c", "new", 1000)
        await harness.store.contracts.remove("d")
        await harness.contract("a", secret=None)
        assert await harness.store.contracts.signing() == {"b", "c"}

    async def test_a_secret_is_returned_only_by_private(self, harness: Harness) -> None:
        await harness.contract("c", secret="canary-secret")
        assert (await harness.store.contracts.private("c")).secrets == ("canary-secret",)
        assert "canary-secret" not in repr(await harness.store.contracts.all())
        await harness.contract("c", secret=None)
        assert (await harness.store.contracts.private("c")).secrets == ()

    async def test_a_contract_keeps_its_queue(self, harness: Harness) -> None:
        await harness.contract("c")
        first = await harness.store.contracts.queues()
        await harness.contract("c", active=False)
        await harness.contract("c")
        assert [(queue.id, queue.contract_id, queue.kind) for queue in await harness.store.contracts.queues()] == [
            (first[0].id, "c", "handler")
        ]

    async def test_headers_are_stored_apart_and_returned_only_by_private(self, harness: Harness) -> None:
        contract = Contract("c", parse_address("https://example.com"), headers=("X-Key",))
        await harness.store.contracts.put(contract, "canary", headers={"X-Key": "canary-value"})
        private = await harness.store.contracts.private("c")
        assert (private.secrets, private.headers) == (("canary",), {"X-Key": "canary-value"})
        await harness.store.contracts.put(contract, None, keep=True)
        assert await harness.store.contracts.private("c") == private
        await harness.store.contracts.put(contract, None)
        assert (await harness.store.contracts.private("c")).headers == {}

    async def test_a_rotated_secret_stays_valid_beside_the_new_one_for_its_grace_time(self, harness: Harness) -> None:
        await harness.contract(secret="one")
        version = await harness.store.contracts.version()
        assert await harness.store.contracts.rotate("c", "two", 60_000)
        assert await harness.store.contracts.version() > version
        assert (await harness.store.contracts.private("c")).secrets == ("two", "one")
        harness.clock.advance(60)
        assert (await harness.store.contracts.private("c")).secrets == ("two",)
        assert await harness.store.contracts.rotate("c", "one", 60_000)
        assert (await harness.store.contracts.private("c")).secrets == ("one", "two")
        assert not await harness.store.contracts.rotate("nobody", "x", 1)

    async def test_changes_since_a_version_list_each_changed_contract_once(self, harness: Harness) -> None:
        contracts = harness.store.contracts
        for id in ("a", "b", "c", "d", "e"):
            await harness.contract(id, f"handler:{id}")
        queues = {row.contract_id: row.id for row in await contracts.queues()}
        since = await contracts.version()
        assert await contracts.changed(since) == []
        assert len(await contracts.changed(0)) == 5
        await harness.contract("a", "handler:moved")
        await contracts.set_active("b", False)
        await contracts.set_active("b", True)
        await contracts.rotate("c", "whsec_b25l", 0)
        await contracts.remove("d")
        assert not await contracts.remove("d")
        changes = sorted(await contracts.changed(since), key=lambda change: change.id)
        assert [(change.id, change.contract and change.contract.address.text) for change in changes] == [
            ("a", "handler:moved"),
            ("b", "handler:b"),
            ("c", "handler:c"),
            ("d", None),
        ]
        assert all(change.queue == queues[change.id] for change in changes)
        since = await contracts.version()
        await contracts.retire("e")
        await contracts.adopt("digest", [ContractInput(Contract("f", parse_address("handler:f"), source="config"))])
        assert {change.id for change in await contracts.changed(since)} == {"e", "f"}

    async def test_the_configuration_replaces_its_own_contracts(self, harness: Harness) -> None:
        await harness.contract("theirs")
        first = [ContractInput(Contract(id, parse_address("handler:h"), source="config"), "s") for id in ("a", "b")]
        assert await harness.store.contracts.digest() is None
        assert await harness.store.contracts.adopt("d1", first)
        assert not await harness.store.contracts.adopt("d1", first)
        assert [one.id for one in await harness.store.contracts.all()] == ["a", "b", "theirs"]
        assert await harness.store.contracts.adopt("d2", first[1:])
        assert [one.id for one in await harness.store.contracts.all()] == ["b", "theirs"]
        assert await harness.store.contracts.digest() == "d2"

    async def test_a_new_configuration_does_not_touch_unchanged_contracts(self, harness: Harness) -> None:
        one = ContractInput(Contract("a", parse_address("handler:h"), source="config"), "s", {"X": "y"})
        await harness.store.contracts.adopt("d1", [one])
        await harness.store.contracts.set_active("a", False)
        await harness.store.contracts.adopt("d2", [one])
        assert [contract.active for contract in await harness.store.contracts.all(inactive=True)] == [False]
        await harness.store.contracts.adopt("d3", [one._replace(secret="other")])
        assert [contract.active for contract in await harness.store.contracts.all(inactive=True)] == [True]
        assert (await harness.store.contracts.private("a")).secrets == ("other",)

    async def test_an_expired_contract_still_delivers_its_pending_deliveries(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        assert await harness.store.contracts.retire("c")
        assert not await harness.store.contracts.retire("c")
        assert await harness.store.contracts.all() == []
        await harness.end(Delivered())

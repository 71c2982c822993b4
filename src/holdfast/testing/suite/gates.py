"""Gates: rate limits and circuit breakers of addresses, shared by all processes on the store."""

from __future__ import annotations

import asyncio

from holdfast.store.roles.store import Store
from holdfast.testing.suite.harness import Harness, StoreSuite

URL = "https://example.com/hook"
AHEAD_US = 2_000_000


async def wait_us(store: Store, interval_us: int, address: str = URL) -> int:
    """Reserve the next send time. Returns the microseconds until then."""
    moment = await store.gates.reserve(address, interval_us, AHEAD_US)
    assert moment.reserved
    return moment.wait_us


class GatesSuite(StoreSuite):
    async def test_reserved_moments_are_one_interval_apart(self, harness: Harness) -> None:
        waits = [await wait_us(harness.store, 100_000) for _ in range(4)]
        assert waits == [0, 100_000, 200_000, 300_000]

    async def test_unused_moments_are_not_saved_up(self, harness: Harness) -> None:
        await wait_us(harness.store, 100_000)
        harness.clock.advance(60)
        assert [await wait_us(harness.store, 100_000) for _ in range(2)] == [0, 100_000]

    async def test_a_moment_far_ahead_is_announced_and_not_reserved(self, harness: Harness) -> None:
        assert await wait_us(harness.store, 60_000_000) == 0
        for _ in range(2):
            moment = await harness.store.gates.reserve(URL, 60_000_000, AHEAD_US)
            assert moment == (60_000_000, False)
        harness.clock.advance(58)
        assert await wait_us(harness.store, 60_000_000) == AHEAD_US

    async def test_each_address_has_its_own_rate(self, harness: Harness) -> None:
        await wait_us(harness.store, 100_000)
        assert await wait_us(harness.store, 100_000, "https://example.org") == 0

    async def test_processes_share_a_rate(self, harness: Harness) -> None:
        other = await harness.another()
        waits = [await wait_us(store, 50_000) for store in (harness.store, other, harness.store, other)]
        assert waits == [0, 50_000, 100_000, 150_000]

    async def test_no_breaker_is_open_at_first(self, harness: Harness) -> None:
        await wait_us(harness.store, 100_000)
        assert await harness.store.gates.open() == []
        assert await harness.store.gates.close(URL) is False

    async def test_an_open_breaker_is_visible_to_all_and_keeps_its_opening_time(self, harness: Harness) -> None:
        began = harness.clock.now_ms()
        await harness.store.gates.trip(URL, 10_000)
        harness.clock.advance(20)
        again = await harness.store.gates.trip(URL, 30_000)
        assert await (await harness.another()).gates.open() == [again]
        assert again == (URL, began, harness.clock.now_ms() + 30_000, 2)

    async def test_open_breakers_are_listed_by_address_after_a_given_one(self, harness: Harness) -> None:
        addresses = [f"https://{name}.example/" for name in "bac"]
        for address in addresses:
            await harness.store.gates.trip(address, 10_000)
        assert [gate.address for gate in await harness.store.gates.open()] == sorted(addresses)
        assert [gate.address for gate in await harness.store.gates.open("https://a.example/")] == sorted(addresses)[1:]

    async def test_a_delivery_behind_an_open_breaker_shows_it(self, harness: Harness) -> None:
        await harness.contract("c", URL)
        id = await harness.send()
        assert (await harness.row(id)).waits_for is None
        await harness.store.gates.trip(URL, 10_000)
        assert (await harness.row(id)).waits_for == "breaker open"
        await harness.store.gates.close(URL)
        assert (await harness.row(id)).waits_for is None

    async def test_only_one_owner_may_probe_and_only_after_the_cooldown(self, harness: Harness) -> None:
        other = await harness.another()
        second = await other.owners.register()
        await harness.store.gates.trip(URL, 10_000)
        assert await harness.store.gates.probe(harness.owner, URL, 5_000) is False
        harness.clock.advance(10)
        assert await harness.store.gates.probe(harness.owner, URL, 5_000) is True
        assert await other.gates.probe(second, URL, 5_000) is False
        harness.clock.advance(5)  # the first took too long
        assert await other.gates.probe(second, URL, 5_000) is True

    async def test_a_probe_ends_with_its_owner(self, harness: Harness) -> None:
        await harness.store.gates.trip(URL, 10_000)
        harness.clock.advance(10)
        assert await harness.store.gates.probe(harness.owner, URL, 60_000) is True
        await harness.crash()
        assert await harness.store.gates.probe(harness.owner, URL, 60_000) is True
        await harness.store.owners.retire(harness.owner)
        await harness.store.close()
        await harness.reopen()
        assert await harness.store.gates.probe(harness.owner, URL, 60_000) is True
        assert await harness.store.gates.probe(harness.owner, URL, 60_000) is False

    async def test_after_a_failed_probe_the_next_waits_for_the_new_cooldown(self, harness: Harness) -> None:
        await harness.store.gates.trip(URL, 10_000)
        harness.clock.advance(10)
        await harness.store.gates.probe(harness.owner, URL, 60_000)
        await harness.store.gates.trip(URL, 20_000)
        assert await harness.store.gates.probe(harness.owner, URL, 5_000) is False
        harness.clock.advance(20)
        assert await harness.store.gates.probe(harness.owner, URL, 5_000) is True

    async def test_a_closed_breaker_is_forgotten_and_its_rate_is_not(self, harness: Harness) -> None:
        await wait_us(harness.store, 100_000)
        await harness.store.gates.trip(URL, 10_000)
        assert await harness.store.gates.close(URL) is True
        assert await harness.store.gates.open() == []
        assert await wait_us(harness.store, 100_000) == 100_000
        assert (await harness.store.gates.trip(URL, 1)).trips == 1

    async def test_no_hour_has_more_than_an_hourly_limit(self, harness: Harness) -> None:
        gates = harness.store.gates
        minute_ms = 60_000 - harness.clock.now_ms() % 60_000
        harness.clock.advance(minute_ms / 1000)  # the beginning of a minute
        assert [await gates.take("c", 3) for _ in range(2)] == [0, 0]
        harness.clock.advance(1800)
        assert await gates.take("c", 3) == 0
        assert await gates.take("c", 3) == 31 * 60_000  # until the first two are surely an hour old
        harness.clock.advance(31 * 60 - 1)
        assert await gates.take("c", 3) == 1000
        harness.clock.advance(1)
        assert [await gates.take("c", 3) for _ in range(2)] == [0, 0]
        assert await gates.take("c", 3) == 30 * 60_000

    async def test_each_name_has_its_own_hourly_limit(self, harness: Harness) -> None:
        assert [await harness.store.gates.take(name, 1) for name in ("a", "b")] == [0, 0]
        assert await harness.store.gates.take("a", 1) > 0
        assert await harness.store.gates.take("a", 2) == 0  # the limit was raised

    async def test_an_hourly_limit_holds_for_all_processes_and_after_a_restart(self, harness: Harness) -> None:
        other = await harness.another()
        stores = [harness.store, other] * 5
        waits = await asyncio.gather(*(store.gates.take("c", 4) for store in stores))
        assert sum(wait == 0 for wait in waits) == 4
        await harness.crash()
        assert await harness.store.gates.take("c", 4) > 0

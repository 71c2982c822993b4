"""History: counts by minute."""

from __future__ import annotations

from holdfast.store.roles.history import ALL_HOURS, HOURS_MAX, MINUTES_MAX, ContractHour, Minute
from holdfast.testing.suite.harness import Harness, StoreSuite


class HistorySuite(StoreSuite):
    async def test_counts_of_one_minute_add_up_and_its_highest_backlog_stays(self, harness: Harness) -> None:
        history = harness.store.history
        await history.add(Minute(100, 1, 2, 3, 4, 50, 6))
        await history.add(Minute(100, 10, 20, 30, 40, 5, 60))
        await history.add(Minute(101, 1, 0, 0, 0))
        assert await history.since(100) == [Minute(100, 11, 22, 33, 44, 50, 60), Minute(101, 1, 0, 0, 0)]
        assert await history.since(101) == [Minute(101, 1, 0, 0, 0)]

    async def test_only_the_last_day_is_kept(self, harness: Harness) -> None:
        history = harness.store.history
        await history.add(Minute(100, 1, 0, 0, 0))
        await history.add(Minute(100 + MINUTES_MAX + 1, 1, 0, 0, 0))
        assert [minute.minute for minute in await history.since(0)] == [100 + MINUTES_MAX + 1]

    async def test_counts_of_a_contract_add_up_by_hour_and_in_all(self, harness: Harness) -> None:
        history = harness.store.history
        await harness.contract("c")
        assert await history.of_contracts(["c"], 0) == []
        await history.add_contracts([ContractHour("c", 100, 5, 1, 2, 3, 50, 900, 800)])
        await history.add_contracts([ContractHour("c", 100, 1, 0, 0, 1, 4, 700, 850)])
        await history.add_contracts([ContractHour("c", 101, delivered=2, latency_ms=6, delivered_at_ms=950)])
        assert await history.of_contracts(["c"], 100) == [
            ContractHour("c", ALL_HOURS, 8, 1, 2, 4, 60, 950, 850),
            ContractHour("c", 100, 6, 1, 2, 4, 54, 900, 850),
            ContractHour("c", 101, 2, 0, 0, 0, 6, 950, 0),
        ]
        assert [count.hour for count in await history.of_contracts(["c"], 101)] == [ALL_HOURS, 101]
        await harness.contract("b")
        await history.add_contracts([ContractHour("b", 101, 1)])
        found = [count[:2] for count in await history.of_contracts(["c", "b", "none"], 101)]
        assert found == [("b", ALL_HOURS), ("b", 101), ("c", ALL_HOURS), ("c", 101)]

    async def test_only_the_last_day_of_a_contract_is_kept_and_nothing_of_one_that_is_gone(
        self, harness: Harness
    ) -> None:
        history = harness.store.history
        await harness.contract("c")
        for hour in (100, 100 + HOURS_MAX + 1):
            await history.add_contracts([ContractHour("c", hour, 1), ContractHour("unknown", hour, 1)])
        assert [count.hour for count in await history.of_contracts(["c"], 1)] == [ALL_HOURS, 100 + HOURS_MAX + 1]
        assert await history.of_contracts(["unknown"], 1) == []
        await harness.store.contracts.remove("c", by=harness.owner.acting("me"))
        await history.add_contracts([ContractHour("c", 100 + HOURS_MAX + 1, 1)])
        assert await history.of_contracts(["c"], 1) == []

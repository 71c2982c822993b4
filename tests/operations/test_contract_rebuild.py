"""Deliveries that a contract should have and does not have are created again from the stored events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.config.config import load_config
from holdfast.domain.contract import Criterion
from holdfast.domain.delivery import Dead, Delivered
from holdfast.domain.errors import BadInput, NotFound
from holdfast.domain.states import Reason
from holdfast.net.guard import Guard
from holdfast.operations.context import OperationsContext
from holdfast.operations.contracts import ContractVerbs
from holdfast.ports import Chance, Clock
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.sqlite.store import SqliteStore, inline_executor
from holdfast.testing.suite.harness import Harness
from postgres import end_schema, fresh_schema, newest, start
from vandal import Vandal

pytest_plugins = ("postgres",)

DAY_S = 86400


class Case:
    def __init__(self, harness: Harness, vandal: Vandal) -> None:
        self.harness, self.vandal = harness, vandal
        config = load_config(None)
        self.retention = replace(config.retention, delivered_ms=7 * DAY_S * 1000)
        self.context = OperationsContext(
            harness.store, harness.owner, Guard(), config.policies, self.retention, harness.clock, harness.chance
        )
        self.verbs = ContractVerbs(self.context)

    async def lose(self, *ids: int) -> None:
        """Delete deliveries behind Holdfast's back."""
        for id in ids:
            await self.vandal.run("DELETE FROM {t}ready WHERE delivery = ?", id)
            await self.vandal.run("DELETE FROM {t}deliveries WHERE id = ?", id)

    async def rebuild(self, **more: object) -> tuple[int, int, int]:
        """Events read, matched and missing, over all pages."""
        total, after = (0, 0, 0), None
        while True:
            page = await self.verbs.rebuild("c", after=after, **more)  # type: ignore[arg-type]
            total = (total[0] + page.events, total[1] + page.matched, total[2] + page.missing)
            after = page.next
            if after is None:
                return total

    async def pending(self) -> list[int]:
        """The numbers of the events of pending deliveries, in the order in which they can be claimed."""
        found = []
        while claims := await self.harness.claim():
            for claim in claims:
                found.append(claim.event.payload)
                await self.harness.settle(claim, Delivered())
        return found


@pytest.fixture(params=["sqlite", "postgres"])
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    schema = fresh_schema()

    async def open_store(name: str, clock: Clock, chance: Chance, keep: bool) -> SqliteStore | PostgresStore:
        if request.param == "sqlite":
            path = tmp_path / f"{name}.db"
            return SqliteStore.open(
                path, driver="sqlite3", keep=keep, clock=clock, chance=chance, executor=inline_executor
            )
        return PostgresStore.open(start(newest()).url(schema), clock=clock, chance=chance)

    if request.param == "sqlite":
        vandal = Vandal(sqlite=tmp_path / "store.db")
    else:
        vandal = Vandal(postgres=(start(newest()).address, schema))
    harness = await Harness.start(open_store)
    yield Case(harness, vandal)
    await harness.close()
    if request.param == "postgres":
        await end_schema(start(newest()), schema)


async def fill(case: Case, **contract: object) -> None:
    """Ten events: the even ones match the contract, and three of these have ended."""
    await case.harness.contract("c", "handler:c", type_criterion=Criterion(match="even"), **contract)  # type: ignore[arg-type]
    for number in range(10):
        await case.harness.emit("odd" if number % 2 else "even", number, stream="s")
    await case.harness.route()


async def test_missing_deliveries_are_created_in_the_order_of_their_events(case: Case) -> None:
    await fill(case, ordered=True)
    for outcome in (Delivered(), Dead(Reason.REJECTED, "no")):
        await case.harness.end(outcome)
    await case.lose(3, 4, 5)
    await case.vandal.run("UPDATE {t}lanes SET open = 0")
    assert await case.rebuild(dry_run=True) == (10, 5, 3)
    assert (await case.harness.store.operator.figures()).pending == 0
    assert await case.rebuild() == (10, 5, 3)
    assert await case.rebuild() == (10, 5, 0)
    assert await case.pending() == [4, 6, 8]
    assert [row.state for row in await case.harness.rows()].count("dead") == 1


async def test_pages_of_any_size_find_the_same(case: Case) -> None:
    await fill(case)
    await case.lose(1, 3, 5)
    assert await case.rebuild(limit=1, dry_run=True) == (10, 5, 3)
    assert await case.rebuild(limit=3) == (10, 5, 3)
    assert sorted(await case.pending()) == [0, 2, 4, 6, 8]


async def test_events_older_than_the_contract_are_left_out(case: Case) -> None:
    await case.harness.emit("even", -2)
    await case.harness.route()
    case.harness.clock.advance(2 * 3600)
    await fill(case)
    await case.lose(1)
    assert (await case.rebuild())[1:] == (5, 1)


async def test_what_may_have_been_pruned_is_not_delivered_again(case: Case) -> None:
    """The event is kept because a reader has not passed it, while its delivery is pruned."""
    await case.harness.store.cursors.ensure("slow", "s")
    await fill(case)
    assert len(await case.pending()) == 5
    case.harness.clock.advance(8 * DAY_S)
    assert (await case.harness.prune(delivered_s=7 * DAY_S))["deliveries"] == 5
    assert len(await case.harness.store.events.read("s", 0, 20)) == 10
    await case.harness.emit("even", 10, stream="s")
    await case.harness.route()
    assert (await case.rebuild())[1:] == (1, 0)
    assert await case.pending() == [10]


async def test_an_event_that_waits_for_the_router_is_left_to_it(case: Case) -> None:
    await fill(case)
    await case.harness.emit("even", 10, stream="s")
    assert (await case.rebuild())[1:] == (6, 0)
    await case.harness.route()
    assert sorted(await case.pending()) == [0, 2, 4, 6, 8, 10]


async def test_a_rebuild_leaves_a_receipt(case: Case) -> None:
    await fill(case)
    await case.lose(1)
    await case.verbs.rebuild("c", actor="api:tok_ann")
    links = [link async for page in case.harness.store.receipts.every() for link in page]
    assert b'"action":"deliver"' in links[-1].leaves
    assert b'"actor":"api:tok_ann"' in links[-1].leaves


async def test_what_cannot_be_rebuilt(case: Case) -> None:
    await fill(case)
    with pytest.raises(NotFound, match="no contract 'other'"):
        await case.verbs.rebuild("other")
    with pytest.raises(BadInput, match="limit"):
        await case.verbs.rebuild("c", limit=0)
    with pytest.raises(BadInput, match="after"):
        await case.verbs.rebuild("c", after="x")

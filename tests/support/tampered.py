"""A store with ten receipts, and a vandal who changes it behind Holdfast's back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.domain.delivery import Dead, Delivered, Retry
from holdfast.domain.receipt import Head, Link
from holdfast.domain.states import Reason
from holdfast.ledger import verifier
from holdfast.ledger.verifier import Range, verify_receipts
from holdfast.ports import Chance, Clock
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.sqlite.store import SqliteStore, inline_executor
from holdfast.testing.suite.harness import Harness
from postgres import end_schema, fresh_schema, newest, start
from vandal import Vandal

CHAIN = "node-0001"


class Case:
    """A store with ten links on one chain: eight delivered, one dead, one waiting for a retry."""

    def __init__(self, harness: Harness, vandal: Vandal) -> None:
        self.harness, self.vandal = harness, vandal

    async def found(self, *anchors: Head, rows: bool = False, wanted: Range = verifier.ALL) -> list[tuple[int, str]]:
        """Sequence numbers and kinds of the faults."""
        receipts = self.harness.store.receipts
        given = [(CHAIN, anchor) for anchor in anchors]
        faults = (await verify_receipts(receipts, given, rows=rows, wanted=wanted)).faults
        assert {fault.chain for fault in faults} <= {CHAIN, ""}
        return [(fault.seq, fault.kind) for fault in faults]

    async def links(self) -> list[Link]:
        return await self.vandal.links(CHAIN)


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
    for number in range(10):
        await harness.send(to="handler:h")
        await harness.end({7: Dead(Reason.REJECTED, "no"), 9: Retry("503")}.get(number, Delivered()))
        harness.clock.advance(1)
    yield Case(harness, vandal)
    await harness.close()
    if request.param == "postgres":
        await vandal.clean_up()
        await end_schema(start(newest()), schema)


def head_of(item: Link) -> Head:
    return Head(item.seq, item.hash)

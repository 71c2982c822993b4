"""Random sequences of steps: no delivery is lost, duplicated, out of order or impossible to claim."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.domain.contract import Criterion
from holdfast.domain.delivery import Claim, Dead, Delivered, Dropped, Handed, Outcome, Retry
from holdfast.domain.states import Reason
from holdfast.store.roles.operator import DeliveryRow
from holdfast.testing.suite.harness import Harness, OpenStore

STREAMS = (None, "a", "b")
OUTCOMES: tuple[Outcome, ...] = (
    Delivered(),
    Retry("503"),
    Dead(Reason.REJECTED, "400"),
    Dropped(Reason.EXPIRED),
    Handed(5),
)
LANES = ("ordered a", "ordered b", "session:x")
ENDED = frozenset({"delivered", "dead", "dropped"})

_numbers = count()
_pick = st.integers(0, 7)
_steps = st.one_of(
    st.tuples(st.just("emit"), st.integers(0, 2)),
    st.tuples(st.just("route")),
    st.tuples(st.just("claim"), st.integers(1, 6)),
    st.tuples(st.just("settle"), _pick, st.integers(0, len(OUTCOMES) - 1)),
    st.tuples(st.just("release"), _pick),
    st.tuples(st.just("crash")),
    st.tuples(st.just("advance"), st.sampled_from((0.5, 6.0, 40.0))),
    st.tuples(st.just("step_wall"), st.sampled_from((-30, 30))),
    st.tuples(st.just("sweep")),
    st.tuples(st.just("cancel"), _pick),
    st.tuples(st.just("reprocess"), _pick),
    st.tuples(st.just("pause"), st.integers(0, 2)),
    st.tuples(st.just("resume"), st.integers(0, 2)),
    st.tuples(st.just("prune")),
)


class History:
    """A sequence of steps on one store, with what was observed after each."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.held: list[Claim] = []
        self.order: dict[int, int] = {}
        self.ended: dict[int, tuple[str, int]] = {}
        self.emitted = 0
        self.routed = 0

    async def begin(self) -> None:
        await self.harness.contract("ordered", "handler:o", ordered=True)
        await self.harness.contract("plain", "https://example.com")
        await self.harness.contract("talk", "session:x")
        await self.harness.contract("other", "session:x", type_criterion=Criterion(match="even"))

    async def step(self, name: str, *args: Any) -> None:
        do: Callable[..., Any] = getattr(self, f"_{name}")
        await do(*args)
        await self.check()

    async def _emit(self, stream: int) -> None:
        self.emitted += 1
        await self.harness.emit("even" if self.emitted % 2 == 0 else "odd", self.emitted, stream=STREAMS[stream])

    async def _route(self) -> None:
        await self.harness.route()
        self.routed = self.emitted

    async def _claim(self, limit: int) -> None:
        for claim in await self.harness.claim(limit):
            assert claim.delivery.id not in self.ended, "an ended delivery was claimed"
            self.order.setdefault(claim.delivery.id, len(self.order))
            self.held.append(claim)

    async def _settle(self, index: int, outcome: int) -> None:
        if self.held:
            await self.harness.settle(self.held.pop(index % len(self.held)), OUTCOMES[outcome])

    async def _release(self, index: int) -> None:
        if self.held:
            await self.harness.store.deliveries.release([self.held.pop(index % len(self.held))])

    async def _crash(self) -> None:
        await self.harness.crash()

    async def _advance(self, seconds: float) -> None:
        self.harness.clock.advance(seconds)

    async def _step_wall(self, seconds: float) -> None:
        self.harness.clock.step_wall(seconds)

    async def _sweep(self) -> None:
        await self.harness.store.deliveries.reclaim()
        await self.harness.store.deliveries.resume_handed()

    async def _cancel(self, index: int) -> None:
        if pending := await self.harness.rows(state="pending"):
            await self.harness.store.operator.cancel(self.harness.owner, [pending[index % len(pending)].id], "me")

    async def _reprocess(self, index: int) -> None:
        if ended := [row for row in await self.harness.rows() if row.state in ENDED]:
            id = ended[index % len(ended)].id
            assert await self.harness.store.operator.reprocess(self.harness.owner, [id], ENDED, "me") == [id]
            del self.ended[id]
            self.order[id] = -1  # a reprocessed delivery goes to the tail of its lane

    async def _pause(self, lane: int) -> None:
        await self.harness.store.operator.pause("lane", LANES[lane])

    async def _resume(self, lane: int) -> None:
        await self.harness.store.operator.resume("lane", LANES[lane])

    async def _prune(self) -> None:
        """Prune only lanes and keys: the checks below need every delivery."""
        await self.harness.prune(dedup_s=0)

    async def check(self) -> None:
        rows = await self.harness.rows()
        self._check_conservation(rows)
        self._check_ends(rows)
        self._check_order(rows)
        figures = await self.harness.store.operator.figures()
        assert figures.pending == sum(row.state == "pending" for row in rows)
        assert figures.unrouted == self.emitted - self.routed

    def _check_conservation(self, rows: list[DeliveryRow]) -> None:
        """Every routed event has one delivery for each contract that matches it."""
        assert len({(row.event_id, row.contract_id) for row in rows}) == len(rows)
        assert len(rows) == 3 * self.routed + self.routed // 2

    def _check_ends(self, rows: list[DeliveryRow]) -> None:
        for row in rows:
            if row.id in self.ended:
                assert (row.state, row.generation) == self.ended[row.id], "an end was undone"
            elif row.state in ENDED:
                self.ended[row.id] = (row.state, row.generation)

    def _check_order(self, rows: list[DeliveryRow]) -> None:
        """In a lane, first attempts are in order, and at most one delivery is leased."""
        lanes: dict[str, list[DeliveryRow]] = {}
        for row in rows:
            if row.address == "session:x":
                lanes.setdefault(row.address, []).append(row)
            elif row.contract_id == "ordered" and row.stream != row.event_id:
                lanes.setdefault(f"ordered {row.stream}", []).append(row)
        for lane in lanes.values():
            assert sum(row.leased for row in lane) <= 1
            firsts = [self.order[row.id] for row in lane if self.order.get(row.id, -1) >= 0]
            assert firsts == sorted(firsts), "first attempts are out of order"

    async def drain(self) -> None:
        """Resume everything and let every lease expire: then every pending delivery must be claimable."""
        harness = self.harness
        for lane in LANES:
            await harness.store.operator.resume("lane", lane)
        await self._route()
        for _ in range(1000):
            harness.clock.advance(400)
            await self._sweep()
            claims = await harness.claim(1000)
            if not claims:
                break
            assert not await harness.settle_all([(claim, Delivered()) for claim in claims])
        await self.check()
        assert [row for row in await harness.rows() if row.state == "pending"] == []
        assert await harness.faults() == []


class RandomHistoriesSuite:
    @settings(
        max_examples=40,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
            HealthCheck.too_slow,
        ],
    )
    @given(steps=st.lists(_steps, min_size=10, max_size=60))
    def test_no_sequence_of_steps_loses_duplicates_or_strands_a_delivery(
        self, open_store: OpenStore, steps: list[tuple[Any, ...]]
    ) -> None:
        asyncio.run(self._run(open_store, steps))

    async def _run(self, open_store: OpenStore, steps: list[tuple[Any, ...]]) -> None:
        harness = await Harness.start(open_store, f"history{next(_numbers)}")
        try:
            history = History(harness)
            await history.begin()
            for step in steps:
                await history.step(*step)
            await history.drain()
        finally:
            await harness.close()

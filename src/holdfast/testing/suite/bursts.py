"""Coalescing: in a session's lane, a pending event is replaced by a later one of its kind, unless it is critical."""

from __future__ import annotations

import pytest

from holdfast.domain import lane
from holdfast.domain.delivery import Delivered, Retry
from holdfast.testing.suite.harness import Harness, StoreSuite

SESSIONS = "handler:sessions"


async def hooks(harness: Harness, *types: str, session: str = "s1") -> list[int]:
    """Append hook events of one session and route each separately. Returns the ids of their deliveries."""
    ids = []
    for type in types:
        event = await harness.emit(f"hook.{type}", stream=f"session:{session}", source="hook", to=SESSIONS)
        await harness.route()
        ids.append((await harness.rows(event=event.id))[0].id)
    return ids


async def seen(harness: Harness) -> list[str]:
    """Deliver everything one by one. Returns the event types in order."""
    types = []
    while claims := await harness.claim():
        for claim in claims:
            types.append(claim.event.type.removeprefix("hook."))
            assert await harness.settle(claim, Delivered())
    return types


class BurstsSuite(StoreSuite):
    async def test_a_sessions_hooks_are_delivered_one_after_another(self, harness: Harness) -> None:
        await hooks(harness, "session_start", "user_prompt_submit", "agent_stop")
        assert len(await harness.claim()) == 1

    async def test_pending_events_of_one_kind_are_coalesced_into_the_latest(self, harness: Harness) -> None:
        ids = await hooks(harness, "session_start", "tool_use", "tool_done", "tool_use", "tool_done", "agent_stop")
        assert await seen(harness) == ["session_start", "tool_use", "tool_done", "agent_stop"]
        rows = [await harness.row(id) for id in ids]
        assert [(row.state, row.reason, row.survivor) for row in rows[1:3]] == [
            ("dropped", "coalesced", ids[3]),
            ("dropped", "coalesced", ids[4]),
        ]
        assert await harness.faults() == []

    async def test_a_batch_reports_what_it_dropped(self, harness: Harness) -> None:
        await hooks(harness, "session_start", "tool_use")
        await harness.emit("hook.tool_use", stream="session:s1", source="hook", to=SESSIONS)
        async with harness.store.routing.batch(10) as batch:
            assert await batch.commit([await harness.plan(event, {}) for event in batch.events], harness.owner)
            assert batch.dropped == {"coalesced": 1}
        await harness.emit("other", stream="s")
        async with harness.store.routing.batch(10) as batch:
            assert await batch.commit([await harness.plan(event, {}) for event in batch.events], harness.owner)
            assert not batch.dropped

    async def test_only_events_of_the_same_tool_and_subagent_are_replaced(self, harness: Harness) -> None:
        for facts in ({"tool_name": "Bash"}, {"tool_name": "Read"}, {"tool_name": "Bash", "subagent_id": "a1"}) * 2:
            await harness.emit(
                "hook.tool_use", facts, stream="session:s1", source="hook", to=SESSIONS, properties=facts
            )
            await harness.route()
        claims = []
        while found := await harness.claim():
            claims += found
            assert await harness.settle(found[0], Delivered())
        assert [claim.event.seq for claim in claims] == [4, 5, 6]

    async def test_nothing_is_replaced_across_a_critical_event(self, harness: Harness) -> None:
        await hooks(harness, "session_start", "tool_use", "notification", "tool_use")
        assert await seen(harness) == ["session_start", "tool_use", "notification", "tool_use"]

    async def test_critical_events_are_never_replaced(self, harness: Harness) -> None:
        await hooks(harness, "notification", "notification", "error", "error", "session_end")
        assert len(await seen(harness)) == 5

    async def test_a_leased_delivery_is_not_replaced(self, harness: Harness) -> None:
        first, second = await hooks(harness, "tool_use", "tool_done")
        claim = await harness.take()
        assert claim.delivery.id == first
        (third,) = await hooks(harness, "tool_use")
        assert (await harness.row(first)).state == "pending"
        assert await harness.settle(claim, Delivered())
        assert await seen(harness) == ["tool_done", "tool_use"]
        assert [(await harness.row(id)).state for id in (second, third)] == ["delivered", "delivered"]

    async def test_a_pending_head_is_replaced_and_its_lane_continues(self, harness: Harness) -> None:
        await hooks(harness, "tool_use")
        await harness.settle(await harness.take(), Retry("not now"))
        await hooks(harness, "tool_use")
        assert await seen(harness) == ["tool_use"]

    async def test_several_events_in_one_batch_leave_one_delivery(self, harness: Harness) -> None:
        for _ in range(5):
            await harness.emit("hook.tool_use", stream="session:s1", source="hook", to=SESSIONS)
        await harness.route()
        assert await seen(harness) == ["tool_use"]
        assert sorted(row.reason or "" for row in await harness.rows()) == ["", *["coalesced"] * 4]

    async def test_sessions_do_not_affect_each_other(self, harness: Harness) -> None:
        await hooks(harness, "tool_use", session="a")
        await hooks(harness, "tool_use", session="b")
        assert await seen(harness) == ["tool_use", "tool_use"]

    async def test_other_addresses_do_not_coalesce(self, harness: Harness) -> None:
        await harness.contract(ordered=True)
        for _ in range(3):
            await harness.emit("hook.tool_use", stream="session:s1", source="app")
        await harness.route()
        assert len(await seen(harness)) == 3

    async def test_a_full_lane_evicts_its_oldest_noncritical_delivery(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in lane_bounds():
            monkeypatch.setattr(f"{module}.LANE_MAX", 4)
        ids = await hooks(
            harness, "session_start", "tool_use", "notification", "tool_use", "notification", "agent_stop"
        )
        rows = [await harness.row(id) for id in ids]
        assert [row.reason for row in rows] == [None, "evicted", None, "evicted", None, None]
        assert await seen(harness) == ["session_start", "notification", "notification", "agent_stop"]


def lane_bounds() -> list[str]:
    """The modules that use the limit, in every store."""
    import sys

    return [
        name
        for name, module in list(sys.modules.items())
        if name.startswith("holdfast.") and getattr(module, "LANE_MAX", None) == lane.LANE_MAX
    ]

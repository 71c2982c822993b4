"""A long lane costs no more than a short one: it is not searched for deliveries that can never be dropped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from engine_harness import EngineHarness
from holdfast.domain.event import new_event
from holdfast.routing.router import Router
from holdfast.store.sqlite import routing
from holdfast.store.sqlite.bursts import Joined


@pytest.fixture
def thinned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions in lanes after which the store looked for rows to remove."""
    places: list[int] = []
    real = routing.coalesce_and_evict

    def noted(connection: object, ready: object, owner: object, joined: Joined, now_ms: int) -> Counter[str]:
        places.append(joined.pos)
        return real(connection, ready, owner, joined, now_ms)  # type: ignore[arg-type]

    monkeypatch.setattr(routing, "coalesce_and_evict", noted)
    monkeypatch.setattr(routing, "LANE_MAX", 2)
    return places


async def test_only_lanes_of_sessions_are_searched_when_they_are_long(tmp_path: Path, thinned: list[int]) -> None:
    harness = await EngineHarness(tmp_path).start()
    await harness.contract("c", pattern="order.*", ordered=True)
    for _ in range(5):
        await harness.store.events.append([new_event("order.placed", stream="s")])
    router = Router(harness.store.routing, harness.registry, harness.owner)
    await router.tick()
    assert [row.state for row in await harness.rows()] == ["pending"] * 5
    assert thinned == []
    for _ in range(5):
        await harness.store.events.append([new_event("hook.notification", stream="session:s", to="handler:sessions")])
    await router.tick()
    assert thinned == [3, 4, 5]
    await harness.store.close()

"""Several daemons on one PostgreSQL: each of them follows transcripts, and each line becomes one event."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from holdfast.agents.transcripts.follower import Follower, FollowSettings
from holdfast.domain.session import SessionChange, SessionState
from holdfast.ports import Inline
from holdfast.testing.clock import ManualClock, SeededChance
from holdfast.testing.suite.harness import OpenStore

pytest_plugins = ("postgres",)

COUNT = 60


async def test_daemons_that_follow_the_same_transcript_append_each_line_once_in_order(
    open_postgres: OpenStore, tmp_path: Path
) -> None:
    path, clock = tmp_path / "s.jsonl", ManualClock()
    message = {"role": "assistant", "model": "m"}
    with path.open("w") as file:
        for number in range(COUNT):
            said = {**message, "content": [{"type": "text", "text": str(number)}]}
            record = {"type": "assistant", "uuid": f"u{number}", "timestamp": "2026-01-01T00:00:00Z", "message": said}
            file.write(json.dumps(record) + "\n")
    stores = [await open_postgres("shared", clock, SeededChance(seed), True) for seed in (1, 2)]
    change = SessionChange("s", "claude", "n", state=SessionState.WORKING, transcript=str(path))
    await stores[0].sessions.change(change)
    followers = [Follower(store, clock, Inline(), settings=FollowSettings(batch_bytes=700)) for store in stores]

    async def follow(follower: Follower) -> None:
        while await follower.tick() == 0.0:
            pass

    await asyncio.gather(*map(follow, followers))
    events = await stores[0].events.read("session:s", 0, 1000)
    assert [event.payload["text"] for event in events] == [str(number) for number in range(COUNT)]
    assert sum(follower.appended for follower in followers) == COUNT
    for store in stores:
        await store.close()

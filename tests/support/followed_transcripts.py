"""A store and the transcripts of some sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.agents.transcripts.follower import Follower, FollowSettings
from holdfast.domain.session import SessionChange, SessionState
from holdfast.ports import Inline
from holdfast.store.open import open_store
from holdfast.store.roles.store import Store
from holdfast.testing.clock import ManualClock, SeededChance

FIXTURES = Path(__file__).parents[1] / "fixtures" / "transcripts"


class Crash(BaseException):
    """The process is gone: nothing catches it."""


class World:
    """A store and the transcripts of some sessions. The follower may be killed and started again."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.clock, self.chance = folder, ManualClock(), SeededChance(1)
        self.settings = FollowSettings(**settings)
        self.store: Store = self._open()
        self.crash_at: str | None = None
        self.follower = self.new_follower()

    def _open(self) -> Store:
        url = f"sqlite:///{self.folder}/follow.db"
        return open_store(url, keep=True, clock=self.clock, chance=self.chance, executor=lambda name: Inline())

    def new_follower(self, **options: Any) -> Follower:
        return Follower(self.store, self.clock, Inline(), settings=self.settings, probe=self._probe, **options)

    def _probe(self, point: str) -> None:
        if point == self.crash_at:
            self.crash_at = None
            raise Crash(point)

    async def reopen(self) -> None:
        await self.store.close()
        self.store = self._open()
        self.follower = self.new_follower()

    def path(self, name: str = "s") -> Path:
        return self.folder / f"{name}.jsonl"

    async def session(self, name: str = "s", agent: str = "claude", **more: Any) -> None:
        change = {"state": SessionState.WORKING, "transcript": str(self.path(name)), **more}
        await self.store.sessions.change(SessionChange(name, agent, f"native-{name}", **change))

    async def tick(self) -> float | None:
        self.clock.advance(1.5)
        return await self.follower.tick()

    async def drain(self) -> None:
        """Until nothing is left to be read, however much time it takes."""
        self.follower.read_now("s")
        for _ in range(500):
            if await self.tick() != 0.0:
                return
        raise AssertionError("the follower does not come to rest")

    async def output(self, name: str = "s") -> list[str]:
        events = await self.store.events.read(f"session:{name}", 0, 10_000)
        return [event.payload["text"] for event in events if event.type == "agent.output"]


def line(text: str, at: str | None = "2026-01-01T00:00:00Z", **more: Any) -> bytes:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    record = {"type": "assistant", "uuid": f"u-{text}", "timestamp": at, "message": message, **more}
    return json.dumps(record).encode() + b"\n"


def append(path: Path, *raw: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(raw))

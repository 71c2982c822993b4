"""A replay of hooks in interleaved sessions, with a daemon that is killed repeatedly, compared with one that is not.

python tests/hooks/replay.py --events 10000 --sessions 20 --kills 20 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "src")]

from daemon import Daemon, wait_until  # noqa: E402
from holdfast.domain.event import Event  # noqa: E402
from holdfast.ingress.spool import notify_daemon  # noqa: E402
from holdfast.store.open import open_store  # noqa: E402
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow  # noqa: E402
from holdfast.store.roles.sessions import SessionFilter  # noqa: E402
from hooks import claude, drop_hook  # noqa: E402

DRAIN_S = 600.0
PAGE = 1000

Record = tuple[int, str, dict[str, Any]]


class StoreContents(NamedTuple):
    """What a store holds at the end."""

    sessions: dict[str, dict[str, Any]]
    streams: dict[str, list[Event]]
    deliveries: list[DeliveryRow]

    def raw(self, session: str) -> list[str]:
        return [event.id for event in self.streams[session] if event.source == "hook"]

    def critical_events(self, session: str) -> list[tuple[str, Any]]:
        """The events that may never be dropped, in order."""
        types = ("agent.user_prompt_submit", "agent.agent_stop", "agent.notification", "error.error")
        return self._of(session, types)

    def lives(self, session: str) -> list[tuple[str, Any]]:
        """When it began and ended, once per event about it."""
        return self._of(session, ("session.started", "session.closed"))

    def _of(self, session: str, types: tuple[str, ...]) -> list[tuple[str, Any]]:
        return [(event.type, event.payload) for event in self.streams[session] if event.type in types]


def script(events: int, sessions: int, seed: int) -> list[Record]:
    """Hooks of several sessions as they might come: turns with tools, questions and errors, in any interleaving."""
    chance = random.Random(seed)
    lives = [_life(f"s{number}", chance) for number in range(sessions)]
    return [(number, "claude", next(chance.choice(lives))) for number in range(1, events + 1)]


def _life(session: str, chance: random.Random) -> Iterator[dict[str, Any]]:
    yield claude("SessionStart", session, source="startup")
    turn = 0
    while True:
        turn += 1
        yield claude("UserPromptSubmit", session, prompt=f"{session} turn {turn}")
        for _ in range(chance.randrange(6)):
            tool = chance.choice(("Bash", "Read", "Edit"))
            yield claude("PreToolUse", session, tool_name=tool)
            if chance.random() < 0.1:
                yield claude("PermissionRequest", session, tool_name=tool)
            yield claude("PostToolUse", session, tool_name=tool)
        if chance.random() < 0.1:
            yield claude("StopFailure", session, error="rate_limit", error_details=f"turn {turn}")
        else:
            background = [{"id": "b1"}] if chance.random() < 0.2 else []
            yield claude("Stop", session, last_assistant_message=f"{session} did {turn}", background_tasks=background)
        if chance.random() < 0.05:
            yield claude("SessionEnd", session, reason="prompt_input_exit")
            yield claude("SessionStart", session, source="resume")


def replay(home: Path, records: list[Record], kills: int, seed: int) -> tuple[StoreContents, int]:
    """Feed a daemon and kill it; then let it finish. The contents, and how many kills left files in the spool."""
    chance = random.Random(seed)
    busy = 0
    chunk = len(records) // (kills + 1)
    with Daemon(home) as daemon:
        for kill in range(kills):
            _feed(daemon, records[kill * chunk : (kill + 1) * chunk])
            if kill % 2:  # every other kill comes at once, while the last files are being imported
                time.sleep(chance.random() * 0.5)
            daemon.kill9()
            busy += any((home / "spool").glob("*.evt"))
            daemon.start()
        _feed(daemon, records[kills * chunk :])
        drain(daemon)
        daemon.stop()
    return asyncio.run(read_contents(home)), busy


def _feed(daemon: Daemon, records: list[Record]) -> None:
    for number, agent, payload in records:
        drop_hook(daemon.home / "spool", number, agent, payload)
    notify_daemon(daemon.home / "holdfast.sock")


def drain(daemon: Daemon) -> None:
    """Wait until everything that was fed has its end."""

    def done() -> bool:
        status = daemon.request("GET", "/api/status")[1]
        time.sleep(0.2)
        return not (status["spooled"] or status["unrouted"] or status["pending"])

    wait_until(done, DRAIN_S, lambda: f"still at work: {daemon.request('GET', '/api/status')[1]}\n{daemon.log[-4000:]}")


async def read_contents(home: Path) -> StoreContents:
    store = open_store(f"sqlite:///{home}/holdfast.db", keep=True)
    try:
        sessions = (await store.sessions.find(SessionFilter(), None, PAGE)).items
        rows: list[DeliveryRow] = []
        after: str | None = None
        while True:
            page = await store.operator.deliveries(DeliveryFilter(address="handler:sessions"), after, PAGE)
            rows, after = rows + page.items, page.next
            if after is None:
                break
        streams = {}
        for session in sessions:
            streams[session.id] = events = await store.events.read(session.stream, 0, PAGE)
            while events and len(more := await store.events.read(session.stream, events[-1].seq, PAGE)):
                events += more
    finally:
        await store.close()
    shown = ("state", "cwd", "pane", "transcript", "title", "last_prompt", "last_answer")
    table = {one.id: {**{name: getattr(one, name) for name in shown}, "facts": one.facts} for one in sessions}
    return StoreContents(table, streams, rows[::-1])


def check(records: list[Record], calm: StoreContents, killed: StoreContents) -> None:
    """0 lost, the order of each session kept, everything with its end, and the same sessions as without kills."""
    for contents in (calm, killed):
        for session in {payload["session_id"] for _, _, payload in records}:
            sent = [f"evt_{number:032x}" for number, _, payload in records if payload["session_id"] == session]
            assert contents.raw(f"claude-{session}") == sent, f"{session}: lost, doubled or out of order"
        check_ends(contents)
    assert killed.sessions == calm.sessions
    for session in calm.sessions:
        assert killed.critical_events(session) == calm.critical_events(session)
        assert killed.lives(session) == calm.lives(session)


def check_ends(contents: StoreContents) -> None:
    """Every delivery has its end; what was dropped is bursty and names a later survivor on its own stream."""
    by_id = {row.id: row for row in contents.deliveries}
    for row in contents.deliveries:
        if row.state == "dropped":
            assert row.reason == "coalesced"
            assert row.event_type in ("hook.tool_use", "hook.tool_done", "hook.raw")
            survivor = by_id[row.survivor or 0]
            assert (survivor.stream, survivor.event_type) == (row.stream, row.event_type)
            assert survivor.seq > row.seq
        else:
            assert (row.state, row.reason) == ("delivered", None), row


def run(events: int, sessions: int, kills: int, seed: int, folder: Path) -> dict[str, Any]:
    records = script(events, sessions, seed)
    calm, _ = replay(folder / "calm", records, 0, seed)
    killed, busy = replay(folder / "killed", records, kills, seed)
    check(records, calm, killed)
    dropped = sum(row.state == "dropped" for row in killed.deliveries)
    return {
        "events": events, "sessions": len(killed.sessions), "kills": kills, "kills_at_work": busy, "lost": 0,
        "coalesced": dropped, "seed": seed,
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, default in (("events", 10_000), ("sessions", 20), ("kills", 20), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = vars(parser.parse_args())
    with tempfile.TemporaryDirectory(prefix="holdfast-replay-") as where:
        sys.stdout.write(json.dumps(run(**chosen, folder=Path(where))) + "\n")

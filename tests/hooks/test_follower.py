"""The follower: what agents say is in the log once, in order, whatever crashes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agents.transcripts import follower as module
from holdfast.agents.transcripts.follower import Follower, FollowSettings
from holdfast.daemon.loop import Loop
from holdfast.domain.errors import StoreBusy, StreamClosed
from holdfast.domain.event import iso_time, new_event
from holdfast.domain.session import SessionChange, SessionState
from holdfast.ports import Inline, SystemClock, Threads, no_probe
from holdfast.store.open import open_store
from holdfast.store.roles.store import Store
from holdfast.testing.clock import ManualClock, SeededChance

FIXTURES = Path(__file__).parents[1] / "fixtures" / "transcripts"
POINTS = ("transcripts:read", "transcripts:appended", "transcripts:moved")


class Crash(BaseException):
    """The process is gone: nothing catches it."""


class World:
    """A store and the transcripts of some sessions; the follower may die and be started anew."""

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
        self.follower.nudge("s")
        for _ in range(500):
            if await self.tick() != 0.0:
                return
        raise AssertionError("the follower does not come to rest")

    async def output(self, name: str = "s") -> list[str]:
        events = await self.store.events.read(f"session:{name}", 0, 10_000)
        return [event.payload["text"] for event in events if event.type == "agent.output"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def line(text: str, at: str | None = "2026-01-01T00:00:00Z", **more: Any) -> bytes:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    record = {"type": "assistant", "uuid": f"u-{text}", "timestamp": at, "message": message, **more}
    return json.dumps(record).encode() + b"\n"


def append(path: Path, *raw: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(raw))


@pytest.mark.parametrize(
    ("agent", "name", "kinds"),
    [
        ("claude", "claude.jsonl", ["assistant", "tool", "tool", "assistant"]),
        ("codex", "codex-rollout.jsonl", ["tool", "assistant"]),
        ("gemini", "gemini.jsonl", ["tool", "assistant"]),
    ],
)
async def test_what_an_agent_says_becomes_events(world: World, agent: str, name: str, kinds: list[str]) -> None:
    world.path().write_bytes((FIXTURES / name).read_bytes())
    await world.session(agent=agent)
    await world.drain()
    events = await world.store.events.read("session:s", 0, 100)
    assert [event.properties["kind"] for event in events] == kinds
    assert {event.type for event in events} == {"agent.output"}
    last = events[-1]
    assert last.source == "agent"
    assert last.payload["text"] == "All done: 12 tests pass."
    assert last.timestamp == last.payload["at"]
    assert last.properties == {"session_id": "s", "kind": "assistant", "agent": agent}
    assert next(event.properties["tool_name"] for event in events if event.properties["kind"] == "tool")


async def test_it_goes_on_where_it_was_and_a_half_line_waits(world: World) -> None:
    await world.session()
    append(world.path(), line("one"), line("two")[:30])
    await world.drain()
    assert await world.output() == ["one"]
    append(world.path(), line("two")[30:])
    await world.reopen()
    await world.drain()
    assert await world.output() == ["one", "two"]
    assert world.follower.repeated == 0


@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_at_any_step_loses_and_repeats_nothing(world: World, point: str) -> None:
    await world.session()
    append(world.path(), line("one"), line("two"))
    world.crash_at = point
    with pytest.raises(Crash):
        await world.drain()
    append(world.path(), line("three"))
    await world.reopen()
    await world.drain()
    assert await world.output() == ["one", "two", "three"]
    assert world.follower.repeated == (2 if point == "transcripts:appended" else 0)
    assert [event.seq for event in await world.store.events.read("session:s", 0, 10)] == [1, 2, 3]


def test_a_process_that_dies_between_the_two_steps_repeats_nothing(tmp_path: Path) -> None:
    """A real process, a real end: it is gone after the append and before the cursor moved."""
    script = textwrap.dedent("""
        import asyncio, os, sys
        from holdfast.domain.session import SessionChange
        from holdfast.agents.transcripts.follower import Follower
        from holdfast.ports import SystemClock, Threads
        from holdfast.store.roles.events import EventFilter
        from holdfast.store.open import open_store

        async def main(folder, die_at):
            store = open_store(f"sqlite:///{folder}/f.db", keep=True)
            await store.sessions.change(SessionChange("s", "claude", "n", transcript=f"{folder}/s.jsonl"))
            threads = Threads("t")
            probe = lambda point: os._exit(9) if point == die_at else None
            follower = Follower(store, SystemClock(), threads, probe=probe)
            while await follower.tick() == 0.0:
                pass
            print([event.payload["text"] for event in await store.events.read("session:s", 0, 100)])
            threads.close()
            await store.close()

        asyncio.run(main(*sys.argv[1:]))
    """)
    append(tmp_path / "s.jsonl", *[line(str(number), at=None) for number in range(5)])
    run = [sys.executable, "-c", script, str(tmp_path)]
    for point in ("transcripts:read", "transcripts:appended"):
        assert subprocess.run([*run, point], check=False).returncode == 9
    done = subprocess.run([*run, "never"], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str([str(number) for number in range(5)])


async def test_a_file_replaced_while_we_were_away_is_known_by_its_beginning(world: World) -> None:
    """Longer than before, with a line ending just where we had read to."""
    await world.session()
    append(world.path(), line("a1"), line("a2"))
    await world.drain()
    await world.store.close()
    world.path().write_bytes(b"".join(line(text) for text in ("b1", "b2", "b3")))
    world.store = world._open()
    world.follower = world.new_follower()
    await world.drain()
    assert await world.output() == ["a1", "a2", "b1", "b2", "b3"]


async def test_a_file_rewritten_while_we_were_away_is_known_by_where_its_lines_end(world: World) -> None:
    await world.session()
    append(world.path(), line("one"), line("two"))
    await world.drain()
    world.path().write_bytes(line("one") + line("another, longer") + line("three"))
    await world.reopen()
    await world.drain()
    assert await world.output() == ["one", "two", "another, longer", "three"]


async def test_dying_after_the_file_was_cut_short_forgets_nothing_of_it(world: World) -> None:
    await world.session()
    append(world.path(), line("a1"), line("a2"), line("a3"))
    await world.drain()
    world.path().write_bytes(line("a1") + line("b1"))
    world.crash_at = "transcripts:read"
    with pytest.raises(Crash):
        await world.drain()
    append(world.path(), *[line(f"b{number}") for number in range(2, 6)])
    await world.reopen()
    await world.drain()
    assert await world.output() == ["a1", "a2", "a3", "b1", "b2", "b3", "b4", "b5"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 6)),
        st.tuples(st.just("half"), st.integers(1, 80)),
        st.tuples(st.just("tick"), st.integers(1, 3)),
        st.tuples(st.just("crash"), st.sampled_from(POINTS)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("replace"), st.integers(0, 3)),
        st.tuples(st.just("cut"), st.integers(0, 3)),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, batch_bytes=st.sampled_from([1, 300, 65536]), named=st.booleans())
def test_every_line_is_told_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], batch_bytes: int, named: bool
) -> None:
    asyncio.run(_play(World(tmp_path_factory.mktemp("play"), batch_bytes=batch_bytes), steps, named))


async def _play(world: World, steps: list[tuple[str, Any]], named: bool) -> None:
    """Random writing, reading, dying and rewriting. Before a file is rewritten it is read to its end."""
    path = world.path()
    path.touch()
    await world.session()
    told: list[str] = []
    lines: list[bytes] = []

    def say() -> bytes:
        text = f"line {len(told)}"
        told.append(text)
        more = {} if named else {"uuid": None}
        lines.append(line(text, f"2026-01-01T00:00:{len(told) // 60:02d}Z" if named else None, **more))
        return lines[-1]

    for step, value in steps:
        match step:
            case "write":
                append(path, *[say() for _ in range(value)])
            case "half":
                raw = say()
                append(path, raw[:value])
                await world.tick()
                append(path, raw[value:])
            case "tick":
                for _ in range(value):
                    await world.tick()
            case "crash":
                world.crash_at = value
                try:
                    await world.tick()
                except Crash:
                    await world.reopen()
                world.crash_at = None
            case "restart":
                await world.reopen()
            case "replace" | "cut":
                await world.drain()
                lines = [] if step == "replace" else lines[: max(1, len(lines) - 1 - value)]
                fresh = path.with_suffix(".new")
                fresh.write_bytes(b"".join([*lines, *[say() for _ in range(value)]]))
                if step == "replace":
                    os.replace(fresh, path)
                else:
                    path.write_bytes(fresh.read_bytes())
                await world.drain()
    await world.drain()
    assert await world.output() == told
    events = await world.store.events.read("session:s", 0, 10_000)
    assert [event.seq for event in events] == list(range(1, len(told) + 1))
    await world.store.close()


async def test_a_message_that_gemini_writes_again_is_told_once(world: World) -> None:
    def message(**more: Any) -> bytes:
        common = {"id": "m1", "timestamp": "2026-01-01T00:00:00Z", "type": "gemini", "content": "Looking."}
        return json.dumps({**common, **more}).encode() + b"\n"

    calls = [{"id": "c1", "name": "read_file", "args": {"absolute_path": "/src/a.py"}}]
    await world.session(agent="gemini")
    append(world.path(), message(), message(toolCalls=calls), message(toolCalls=calls, tokens={"total": 5}))
    await world.drain()
    await world.reopen()
    append(world.path(), json.dumps({"$set": {"messages": [json.loads(message(toolCalls=calls))]}}).encode() + b"\n")
    await world.drain()
    assert await world.output() == ["Looking.", "read_file: /src/a.py"]


async def test_a_long_transcript_holds_up_no_other(tmp_path: Path) -> None:
    world = World(tmp_path, batch_bytes=2000)
    for name in ("loud", "quiet"):
        await world.session(name)
    append(world.path("loud"), *[line(f"loud {number}") for number in range(300)])
    append(world.path("quiet"), line("quiet"))
    assert await world.tick() == 0.0
    assert await world.output("quiet") == ["quiet"]
    first = len(await world.output("loud"))
    assert 0 < first < 20
    append(world.path("quiet"), line("more"))
    await world.tick()
    assert await world.output("quiet") == ["quiet", "more"]
    assert len(await world.output("loud")) < 40
    await world.drain()
    assert await world.output("loud") == [f"loud {number}" for number in range(300)]


async def test_what_was_said_before_we_heard_of_the_session_is_not_told(world: World) -> None:
    heard_ms = world.clock.now_ms()
    old = [line(f"old {n}", iso_time(heard_ms - 60_000 + n)) for n in range(500)]
    append(world.path(), *old)
    first = new_event("hook.session_start", stream="session:s", timestamp=iso_time(heard_ms))
    await world.store.events.append([first])
    world.clock.advance(7200)  # the daemon was off for two hours; meanwhile the agent went on
    await world.session()
    append(world.path(), line("new 1", iso_time(heard_ms + 5_000)), line("new 2", iso_time(heard_ms + 9_000)))
    await world.drain()
    assert await world.output() == ["new 1", "new 2"]


@pytest.mark.parametrize(("start", "told"), [("beginning", ["old", "new"]), ("now", ["new"])])
async def test_where_a_transcript_never_read_begins_can_be_chosen(tmp_path: Path, start: str, told: list[str]) -> None:
    world = World(tmp_path, start=start)
    await world.session()
    append(world.path(), line("old", "2001-01-01T00:00:00Z"))
    await world.drain()
    append(world.path(), line("new", "2001-01-01T00:00:01Z"))
    await world.drain()
    assert await world.output() == told


async def test_a_crash_before_the_first_bookmark_does_not_publish_old_output(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.session()
    append(world.path(), line("old", "2001-01-01T00:00:00Z"))

    async def fail(*_: object) -> None:
        raise StoreBusy("no bookmark was written")

    with monkeypatch.context() as patch:
        patch.setattr(world.store.bookmarks, "put", fail)
        with pytest.raises(StoreBusy):
            await world.drain()
    await world.drain()
    assert await world.output() == []
    append(world.path(), line("new"))
    await world.drain()
    assert await world.output() == ["new"]


async def test_a_session_that_ended_is_read_to_its_end_and_then_left(world: World) -> None:
    append(world.path(), line("while we were away"))
    await world.session(state=SessionState.ENDED)
    await world.drain()
    append(world.path(), line("last words"))
    await world.drain()
    assert await world.output() == ["while we were away", "last words"]
    world.clock.advance(module.LINGER_MS / 1000 + 1)
    append(world.path(), line("too late"))
    await world.drain()
    assert await world.output() == ["while we were away", "last words"]
    assert not world.follower._followed


async def test_a_session_that_goes_on_in_another_file_finishes_the_one_before(world: World) -> None:
    await world.session()
    append(world.path(), line("one"))
    await world.drain()
    append(world.path(), line("two"))
    append(world.path("next"), line("three"))
    await world.session(transcript=str(world.path("next")))
    await world.drain()
    assert sorted(await world.output()) == ["one", "three", "two"]
    world.clock.advance(module.LINGER_MS / 1000 + 1)
    await world.drain()
    assert [path for _, path in world.follower._followed] == [str(world.path("next"))]


async def test_only_so_many_are_followed_the_newest_first(tmp_path: Path) -> None:
    world = World(tmp_path, sessions_max=2)
    for name in ("a", "b", "c"):
        await world.session(name)
        append(world.path(name), line(name))
        world.clock.advance(1)
    await world.drain()
    assert [await world.output(name) for name in ("a", "b", "c")] == [[], ["b"], ["c"]]
    await world.session("a")
    world.follower.nudge("a")
    await world.drain()
    assert await world.output("a") == ["a"]


async def test_a_nudge_looks_at_once_and_names_the_path(world: World) -> None:
    woken = []
    world.follower.wake = lambda: woken.append(True)
    await world.session(transcript=None)
    append(world.path(), line("one"))
    assert await world.follower.tick() is not None
    assert await world.output() == []
    world.follower.nudge("s", str(world.path()))
    assert woken == [True]
    await world.follower.tick()
    assert await world.output() == ["one"]
    append(world.path(), line("two"))
    await world.follower.tick()
    assert await world.output() == ["one"]  # not due yet: no time has passed
    world.follower.nudge("s")
    await world.follower.tick()
    assert await world.output() == ["one", "two"]
    world.follower.nudge("nobody", "/tmp/nothing.jsonl")
    await world.follower.tick()


async def test_a_transcript_that_no_hook_named_is_found(world: World) -> None:
    sought: list[tuple[str, str]] = []

    def find(agent: str, native_id: str) -> str | None:
        sought.append((agent, native_id))
        return str(world.path()) if world.path().exists() else None

    world.follower = world.new_follower(find=find)
    await world.session(agent="codex", transcript=None)
    await world.drain()
    await world.drain()
    assert sought == [("codex", "native-s")]  # not again and again
    world.path().write_bytes((FIXTURES / "codex-rollout.jsonl").read_bytes())
    world.clock.advance(60)
    await world.drain()
    assert len(await world.output()) == 2


async def test_what_did_not_change_is_not_opened(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.session()
    append(world.path(), line("one"))
    await world.drain()

    def no_read(*args: Any) -> None:
        raise AssertionError("it was opened")

    monkeypatch.setattr(module, "read", no_read)
    monkeypatch.setattr(module, "head_of", no_read)
    delays = [await world.tick() for _ in range(3)]
    assert delays == [1.0, 1.0, 1.0]
    await world.session(state=SessionState.IDLE)
    world.follower.nudge("s")
    assert await world.tick() == 5.0


async def test_trouble_with_one_transcript_is_not_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(world.path("fifo"))
    world.path("folder").mkdir()
    for name in ("fifo", "folder", "missing", "faulty", "s"):
        await world.session(name)
    append(world.path("faulty"), line("never"))
    append(world.path(), line("one"))

    def faulty(agent: str, path: str, *more: Any) -> Any:
        if path == str(world.path("faulty")):
            raise RuntimeError("a fault of ours")
        return real(agent, path, *more)

    real: Callable[..., Any] = module.read
    monkeypatch.setattr(module, "read", faulty)
    with caplog.at_level("INFO", "holdfast.transcripts"):
        await world.drain()
        world.clock.advance(60)
        await world.drain()
    assert await world.output() == ["one"]
    said = [record.getMessage() for record in caplog.records if "cannot read the transcript" in record.getMessage()]
    assert len(said) == 4  # once for each
    append(world.path("missing"), line("here now"))
    world.clock.advance(60)
    await world.drain()
    assert await world.output("missing") == ["here now"]


async def test_two_followers_of_one_store_tell_it_once(world: World) -> None:
    await world.session()
    append(world.path(), *[line(str(number)) for number in range(20)])
    world.settings = FollowSettings(batch_bytes=300)
    one, other = world.new_follower(), world.new_follower()
    for turn in range(200):
        world.clock.advance(1.5)
        follower = one if turn % 3 else other
        await follower.tick()
        await other.tick()
    assert await world.output() == [str(number) for number in range(20)]


async def test_a_closed_stream_does_not_stop_the_reading(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await world.session()
    append(world.path(), line("one"))
    real = world.store.events.append

    async def closed(events: Any) -> Any:
        raise StreamClosed("the stream is closed")

    monkeypatch.setattr(world.store.events, "append", closed)
    await world.drain()
    assert world.follower.refused == 1
    monkeypatch.setattr(world.store.events, "append", real)
    append(world.path(), line("two"))
    await world.drain()
    assert await world.output() == ["two"]


async def test_files_are_read_away_from_the_event_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()
    for name in ("read", "head_of", "try_stat", "start_at"):
        real = getattr(module, name)

        def watched(*args: Any, real: Callable[..., Any] = real) -> Any:
            threads.add(threading.get_ident())
            return real(*args)

        monkeypatch.setattr(module, name, watched)
    executor = Threads("test-transcripts")
    follower = Follower(world.store, world.clock, executor, probe=no_probe)
    await world.session()
    append(world.path(), line("one"))
    await follower.tick()
    executor.close()
    assert await world.output() == ["one"]
    assert threads
    assert threading.get_ident() not in threads


async def test_in_the_daemons_loop_a_nudge_brings_what_was_said(world: World) -> None:
    executor, loop = Threads("test-transcripts"), Loop(SeededChance(1))
    follower = Follower(world.store, SystemClock(), executor)
    stored = asyncio.Event()
    world.store.on_change(lambda what: stored.set())
    await world.session(transcript=None)
    append(world.path(), line("one"))
    follower.wake = loop.add(follower, poll_s=3600)
    follower.nudge("s", str(world.path()))
    async with asyncio.timeout(30):
        while await world.output() != ["one"]:
            await stored.wait()
            stored.clear()
    assert loop.health() == {"transcripts": "ok"}
    await loop.stop()
    executor.close()

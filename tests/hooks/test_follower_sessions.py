"""Which transcripts are followed, from where, and until when."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from followed_transcripts import FIXTURES, World, append, line
from holdfast.agents.transcripts import follower as module
from holdfast.agents.transcripts.follower import Follower, FollowSettings
from holdfast.daemon.loop import Loop
from holdfast.domain.errors import StoreBusy, StreamClosed
from holdfast.domain.event import iso_time, new_event
from holdfast.domain.session import SessionState
from holdfast.ports import SystemClock, Threads, no_probe
from holdfast.testing.clock import SeededChance


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_lines_from_before_the_first_hook_event_become_no_events(world: World) -> None:
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


@pytest.mark.parametrize(("start", "expected"), [("beginning", ["old", "new"]), ("now", ["new"])])
async def test_the_start_of_an_unread_transcript_is_configurable(
    tmp_path: Path, start: str, expected: list[str]
) -> None:
    world = World(tmp_path, start=start)
    await world.session()
    append(world.path(), line("old", "2001-01-01T00:00:00Z"))
    await world.drain()
    append(world.path(), line("new", "2001-01-01T00:00:01Z"))
    await world.drain()
    assert await world.output() == expected


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


async def test_an_ended_session_is_read_to_its_end_and_no_longer_followed(world: World) -> None:
    append(world.path(), line("while we were away"))
    await world.session(state=SessionState.ENDED)
    await world.drain()
    append(world.path(), line("last words"))
    await world.drain()
    assert await world.output() == ["while we were away", "last words"]
    world.clock.advance(module.FOLLOW_AFTER_END_MS / 1000 + 1)
    append(world.path(), line("too late"))
    await world.drain()
    assert await world.output() == ["while we were away", "last words"]
    assert not world.follower._followed


async def test_a_session_that_continues_in_another_file_is_read_to_the_end_of_the_first(world: World) -> None:
    await world.session()
    append(world.path(), line("one"))
    await world.drain()
    append(world.path(), line("two"))
    append(world.path("next"), line("three"))
    await world.session(transcript=str(world.path("next")))
    await world.drain()
    assert sorted(await world.output()) == ["one", "three", "two"]
    world.clock.advance(module.FOLLOW_AFTER_END_MS / 1000 + 1)
    await world.drain()
    assert [path for _, path in world.follower._followed] == [str(world.path("next"))]


async def test_a_limited_number_of_transcripts_is_followed_newest_first(tmp_path: Path) -> None:
    world = World(tmp_path, sessions_max=2)
    for name in ("a", "b", "c"):
        await world.session(name)
        append(world.path(name), line(name))
        world.clock.advance(1)
    await world.drain()
    assert [await world.output(name) for name in ("a", "b", "c")] == [[], ["b"], ["c"]]
    await world.session("a")
    world.follower.read_now("a")
    await world.drain()
    assert await world.output("a") == ["a"]


async def test_a_nudge_reads_the_transcript_at_once(world: World) -> None:
    woken = []
    world.follower.wake = lambda: woken.append(True)
    await world.session(transcript=None)
    append(world.path(), line("one"))
    assert await world.follower.tick() is not None
    assert await world.output() == []
    world.follower.read_now("s", str(world.path()))
    assert woken == [True]
    await world.follower.tick()
    assert await world.output() == ["one"]
    append(world.path(), line("two"))
    await world.follower.tick()
    assert await world.output() == ["one"]  # not due yet: no time has passed
    world.follower.read_now("s")
    await world.follower.tick()
    assert await world.output() == ["one", "two"]
    world.follower.read_now("nobody", "/tmp/nothing.jsonl")
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


async def test_an_unchanged_file_is_not_opened(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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
    world.follower.read_now("s")
    assert await world.tick() == 5.0


async def test_a_faulty_transcript_does_not_affect_others(
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


async def test_two_followers_of_one_store_append_each_line_once(world: World) -> None:
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


async def test_a_closed_stream_does_not_stop_the_follower(
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


async def test_files_are_read_outside_the_event_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_in_the_daemons_loop_a_nudge_appends_new_output(world: World) -> None:
    executor, loop = Threads("test-transcripts"), Loop(SeededChance(1))
    follower = Follower(world.store, SystemClock(), executor)
    stored = asyncio.Event()
    world.store.on_change(lambda what: stored.set())
    await world.session(transcript=None)
    append(world.path(), line("one"))
    follower.wake = loop.add(follower, poll_s=3600)
    follower.read_now("s", str(world.path()))
    async with asyncio.timeout(30):
        while await world.output() != ["one"]:
            await stored.wait()
            stored.clear()
    assert loop.health() == {"transcripts": "ok"}
    await loop.stop()
    executor.close()

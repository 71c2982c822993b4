"""The follower: the output of agents becomes events once and in order, also after crashes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from followed_transcripts import FIXTURES, Crash, World, append, line

POINTS = ("transcripts:read", "transcripts:appended", "transcripts:moved")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("agent", "name", "kinds"),
    [
        ("claude", "claude.jsonl", ["assistant", "tool", "tool", "assistant"]),
        ("codex", "codex-rollout.jsonl", ["tool", "assistant"]),
        ("gemini", "gemini.jsonl", ["tool", "assistant"]),
    ],
)
async def test_the_output_of_an_agent_becomes_events(world: World, agent: str, name: str, kinds: list[str]) -> None:
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


async def test_it_resumes_at_its_position_and_waits_for_the_end_of_a_line(world: World) -> None:
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


async def test_a_file_replaced_while_no_daemon_ran_is_recognized_by_its_first_bytes(world: World) -> None:
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


async def test_a_file_rewritten_while_no_daemon_ran_is_recognized_by_its_line_ends(world: World) -> None:
    await world.session()
    append(world.path(), line("one"), line("two"))
    await world.drain()
    world.path().write_bytes(line("one") + line("another, longer") + line("three"))
    await world.reopen()
    await world.drain()
    assert await world.output() == ["one", "two", "another, longer", "three"]


async def test_a_crash_after_the_file_was_cut_loses_nothing(world: World) -> None:
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
def test_every_line_becomes_one_event_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], batch_bytes: int, named: bool
) -> None:
    asyncio.run(_play(World(tmp_path_factory.mktemp("play"), batch_bytes=batch_bytes), steps, named))


async def _play(world: World, steps: list[tuple[str, Any]], named: bool) -> None:
    """Random writing, reading, dying and rewriting. Before a file is rewritten it is read to its end."""
    path = world.path()
    path.touch()
    await world.session()
    written: list[str] = []
    lines: list[bytes] = []

    def say() -> bytes:
        text = f"line {len(written)}"
        written.append(text)
        more = {} if named else {"uuid": None}
        lines.append(line(text, f"2026-01-01T00:00:{len(written) // 60:02d}Z" if named else None, **more))
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
    assert await world.output() == written
    events = await world.store.events.read("session:s", 0, 10_000)
    assert [event.seq for event in events] == list(range(1, len(written) + 1))
    await world.store.close()


async def test_a_message_that_gemini_writes_again_becomes_one_event(world: World) -> None:
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


async def test_a_long_transcript_does_not_delay_another(tmp_path: Path) -> None:
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

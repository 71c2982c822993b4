"""Delivery by the queue of a CLI, with a program that stands in for it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from holdfast.agents.messages.processes import is_resumed
from holdfast.agents.registry import find_agent
from holdfast.daemon.session_delivery import queue_of
from holdfast.domain.session import Session, SessionChange, SessionState
from terminals import messenger

SCRIPT = """#!/bin/sh
[ -e "$0.fails" ] && { echo "error: thread not found" >&2; exit 1; }
printf '%s\\n' "$CODEX_HOME" "$@" >> "$0.log"
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "codex"
    path.write_text(SCRIPT, encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return path


async def test_a_message_is_queued_once_and_waits_for_the_hook(program: Path, home: Path) -> None:
    change = SessionChange(
        "codex-t1", "codex", "t1", state=SessionState.IDLE, transcript="/u/.codex/sessions/2026/t1.jsonl"
    )
    async with messenger(home) as post:
        await post.store.sessions.change(change)
        program.with_name("codex.fails").touch()
        await post.send("codex-t1", "-v is\na text")
        await post.waiting("codex-t1", "thread not found")
        program.with_name("codex.fails").unlink()
        await post.store.deliveries.make_head_due("session:codex-t1")
        await post.waiting("codex-t1", "confirmation")
        await post.store.deliveries.make_head_due("session:codex-t1")
        await post.waiting("codex-t1", "confirmation")
    queued = program.with_name("codex.log").read_text(encoding="utf-8")
    assert queued == "/u/.codex\nqueue\n--thread\nt1\n--message=-v is\na text\n"


async def test_an_ended_session_gets_messages_once_a_process_has_resumed_it(program: Path, home: Path) -> None:
    """Codex reports that it was resumed only with the next prompt, so its processes are looked at."""
    async with messenger(home) as post:
        await post.store.sessions.change(SessionChange("codex-t1", "codex", "t1", state=SessionState.ENDED))
        await post.send("codex-t1", "hello")
        await post.waiting("codex-t1", "no terminal")
        resumed = program.with_name("open") / "codex"
        resumed.parent.mkdir()
        resumed.write_text("read line", encoding="utf-8")
        for words, is_open in ((["queue", "t2"], False), (["resume", "t1"], True)):
            process = await asyncio.create_subprocess_exec("sh", resumed, *words, stdin=subprocess.PIPE)
            assert is_resumed("codex", "t1") is is_open
            await post.store.deliveries.make_head_due("session:codex-t1")
            await post.waiting("codex-t1", "confirmation" if is_open else "no terminal")
            await process.communicate(b"\n")
        assert not is_resumed("codex", "t1")


def test_only_a_cli_with_a_queue_has_one() -> None:
    assert queue_of("codex") is not None
    assert queue_of("claude") is None
    assert queue_of("no such cli") is None
    agent = find_agent("codex")
    assert agent is not None
    assert agent.queue is not None
    assert agent.queue.environment(Session("s", "codex", "s", transcript="relative/sessions/x")) == {}

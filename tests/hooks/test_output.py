"""From a hook and a transcript to the session's row and the agent's output as events."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

from daemon import Daemon
from hooks import write_hook

FIXTURE = Path(__file__).parents[1] / "fixtures" / "transcripts" / "claude.jsonl"


def test_a_turn_is_shown_with_prompt_and_answer(tmp_path: Path) -> None:
    transcript = tmp_path / "claude.jsonl"
    base = {"session_id": "n-1", "transcript_path": str(transcript), "cwd": str(tmp_path)}
    with Daemon(tmp_path / "home", config="sessions: {transcripts: beginning}") as daemon:
        shutil.copy(FIXTURE, transcript)
        now_ms = time.time_ns() // 1_000_000
        for number, more in enumerate(
            [
                {"hook_event_name": "SessionStart", "source": "startup"},
                {"hook_event_name": "UserPromptSubmit", "prompt": "Fix the build"},
                {"hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": "It is fixed."},
            ]
        ):
            write_hook(daemon.home / "spool", now_ms + number, "claude", json.dumps({**base, **more}).encode())
        page = daemon.wait_for("/api/sessions", lambda answer: any(item["state"] == "idle" for item in answer["items"]))
        (session,) = page["items"]
        assert (session["agent"], session["native_id"], session["cwd"]) == ("claude", "n-1", str(tmp_path))
        assert (session["last_prompt"], session["last_answer"]) == ("Fix the build", "It is fixed.")
        found = daemon.wait_for("/api/events?type=agent.output", lambda answer: len(answer["items"]) > 0)
        assert {item["stream"] for item in found["items"]} == {session["stream"]}
        _, stopped = daemon.request("GET", "/api/events?type=agent.agent_stop")
        assert stopped["items"][0]["payload"]["last_answer"] == "It is fixed."
        listed = daemon.cli("sessions", "list")
        assert "idle" in listed.out

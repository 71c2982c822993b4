"""A transcript shows that the agent took a message although no prompt hook came."""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.agents.messages.transcript_evidence import is_in_transcript
from holdfast.domain.event import iso_time, parse_time
from holdfast.domain.session import Session

BEGUN_MS = parse_time("2026-01-01T12:00:00Z", "t")


def transcript(folder: Path, *prompts: tuple[str, int]) -> Session:
    """A transcript with prompts, each so many seconds after the message was begun."""
    lines = [
        {"type": "user", "uuid": f"u{number}", "timestamp": iso_time(BEGUN_MS + seconds * 1000),
         "message": {"role": "user", "content": text}}
        for number, (text, seconds) in enumerate(prompts)
    ]  # fmt: skip
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return Session("s", "claude", "s", transcript=str(path))


def test_a_prompt_that_was_written_down_since_is_evidence(tmp_path: Path) -> None:
    session = transcript(tmp_path, ("go on", -60), ("something else", 1), ("go on", 2))
    assert is_in_transcript(session, "go on", BEGUN_MS)


def test_an_earlier_prompt_or_another_text_is_not(tmp_path: Path) -> None:
    session = transcript(tmp_path, ("go on", -60), ("please go on", 5))
    assert not is_in_transcript(session, "go on", BEGUN_MS)


def test_a_missing_transcript_is_not(tmp_path: Path) -> None:
    assert not is_in_transcript(Session("s", "claude", "s"), "go on", BEGUN_MS)
    assert not is_in_transcript(Session("s", "claude", "s", transcript=str(tmp_path / "no")), "go on", BEGUN_MS)
    assert not is_in_transcript(Session("s", "unknown", "s", transcript=str(tmp_path)), "go on", BEGUN_MS)

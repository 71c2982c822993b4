"""Transcripts from fixtures, and new ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures" / "transcripts"

FILES = {
    "claude": "claude.jsonl", "codex": "codex-rollout.jsonl", "gemini": "gemini.jsonl", "copilot": "copilot.jsonl",
    "qwen": "qwen.jsonl",
}  # fmt: skip

agents = pytest.mark.parametrize("agent", FILES)


def fixture(agent: str) -> str:
    return str(FIXTURES / FILES[agent])


def write(path: Path, *records: object) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)

"""Where a session's transcript is, when its hooks did not say: found by the session's native id."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from holdfast.agents.transcripts.file import look, opened
from holdfast.domain.errors import BadInput

FOLDERS_MAX = 1000
NAMES_MAX = 20_000

_NATIVE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_STAMP = r"\d{4}-\d\d-\d\dT\d\d-\d\d"


def find_transcript(agent: str, native_id: str, environ: Mapping[str, str] | None = None) -> str | None:
    """The newest transcript of that session which may be read, or None. Claude Code always says where its is."""
    if not _NATIVE_ID.fullmatch(native_id):
        return None
    env = os.environ if environ is None else environ
    match agent:
        case "codex":
            return _first_usable(_rollouts(_folder(env, "CODEX_HOME", ".codex") / "sessions", native_id))
        case "gemini":
            root = Path(env.get("GEMINI_CLI_HOME") or env.get("HOME") or "/") / ".gemini"
            found = _chats(root / "tmp", native_id)
            return _first_usable(path for path in found if _names_session(path, native_id))
    return None


def _rollouts(sessions: Path, native_id: str) -> Iterator[Path]:
    """`sessions/2026/11/15/rollout-2026-11-15T22-15-59-<id>.jsonl`, the newest day first."""
    name = re.compile(rf"rollout-{_STAMP}-\d\d-{re.escape(native_id)}\.jsonl")
    looked = 0
    for year in _folders(sessions):
        for month in _folders(year):
            for day in _folders(month):
                looked += 1
                if looked > FOLDERS_MAX:
                    return
                yield from _files(day, name)


def _chats(tmp: Path, native_id: str) -> Iterator[Path]:
    """`tmp/<project>/chats/session-2026-11-15T22-16-<first 8 of the id>.jsonl`, the newest first."""
    name = re.compile(rf"session-{_STAMP}-{re.escape(native_id[:8])}\.jsonl")
    found = [path for project in _folders(tmp)[:FOLDERS_MAX] for path in _files(project / "chats", name)]
    yield from sorted(found, key=lambda path: path.name, reverse=True)


def _names_session(path: Path, native_id: str) -> bool:
    """The name holds only the beginning of the id; the first line holds all of it."""
    try:
        with opened(str(path)) as file:
            return file.first().get("sessionId") == native_id
    except (OSError, BadInput):
        return False


def _first_usable(paths: Iterator[Path]) -> str | None:
    for path in paths:
        try:
            look(str(path))
        except (OSError, BadInput):
            continue
        return str(path)
    return None


def _folders(folder: Path) -> list[Path]:
    """The folders in it, by name from the last to the first; links are not followed."""
    try:
        with os.scandir(folder) as found:
            names = [entry.name for entry in islice(found, NAMES_MAX) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [folder / name for name in sorted(names, reverse=True)]


def _files(folder: Path, name: re.Pattern[str]) -> list[Path]:
    try:
        with os.scandir(folder) as found:
            names = [entry.name for entry in islice(found, NAMES_MAX) if name.fullmatch(entry.name)]
    except OSError:
        return []
    return [folder / found for found in sorted(names, reverse=True)]


def _folder(env: Mapping[str, str], variable: str, name: str) -> Path:
    return Path(env.get(variable) or Path(env.get("HOME") or "/") / name)

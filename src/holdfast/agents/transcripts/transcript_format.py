"""TranscriptFormat: how one agent CLI writes its transcripts, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.agents.transcripts.transcript_entry import TranscriptEntry
from holdfast.domain.json_value import JsonObject


def no_subagent(first: JsonObject) -> bool:
    return False


def timestamp_of(line: JsonObject) -> object:
    return line.get("timestamp")


def search_nothing(native_id: str, variables: Mapping[str, str]) -> Iterator[Path]:
    return iter(())


@dataclass(frozen=True, slots=True)
class TranscriptFormat:
    """The transcript format of one CLI: JSON lines.

    - `entries` returns the entries of one line, or None for a line of an unknown kind.
    - `title_marks`: a line that holds a title contains one of these bytes. Other lines need not be parsed for it.
    - `is_subagent` decides by the first line whether a file belongs to a subagent.
    - `written_at` returns the time of a line as the CLI writes it.
    - `is_late`: the CLI writes the answer of a turn only after the hook that ends the turn.
    - `search` yields candidate files for a native session id and the environment variables, newest first. It is used
      when no hook named the transcript.
    """

    entries: Callable[[JsonObject], list[TranscriptEntry] | None]
    title_marks: tuple[bytes, ...]
    is_subagent: Callable[[JsonObject], bool] = no_subagent
    written_at: Callable[[JsonObject], object] = timestamp_of
    is_late: bool = False
    search: Callable[[str, Mapping[str, str]], Iterator[Path]] = search_nothing

"""Reads transcripts: forward in batches, backward for the latest texts, and by binary search for a point in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from holdfast.agents import registry
from holdfast.agents.registry import transcript_format
from holdfast.agents.transcripts.latest_texts import LatestTexts
from holdfast.agents.transcripts.transcript_entry import TranscriptEntry
from holdfast.agents.transcripts.transcript_file import (
    LINE_MAX,
    FileMark,
    Signature,
    Transcript,
    open_transcript,
    parse,
)
from holdfast.agents.transcripts.transcript_format import TranscriptFormat
from holdfast.domain.errors import BadInput
from holdfast.domain.event import parse_time
from holdfast.domain.text import short_repr

BATCH_BYTES = 64 * 1024
BACKWARD_BYTES = (128 * 1024, 1024 * 1024, 4 * 1024 * 1024)
FORWARD_BYTES = 64 * 1024
SEARCH_BYTES = 64 * 1024
"""The binary search stops at a range of this size and reads it line by line."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries of one read, and the offset of the next one.

    `more`: there may be more to read now. `replaced`: the file is not the one that was read before, so nothing was
    read, and `next_offset` is 0. `unknown`, `broken` and `oversized` count lines that were left out.
    """

    entries: list[TranscriptEntry]
    next_offset: int
    more: bool = False
    replaced: bool = False
    unknown: int = 0
    broken: int = 0
    oversized: int = 0
    mark: FileMark | None = None
    signature: Signature | None = None


def read(agent: str, path: str, offset: int = 0, max_bytes: int = BATCH_BYTES, mark: FileMark | None = None) -> Batch:
    """The entries from `offset` on, from whole lines only. The `mark` of an earlier batch reveals a rewritten file,
    even one that is longer than before.

    No content of a line raises an exception. A missing file raises OSError, a refused one BadInput.
    """
    format = _require_format(agent)
    with open_transcript(path) as file:
        if not file.fits(offset, mark):
            return Batch([], 0, more=True, replaced=True, signature=file.signature)
        read = file.lines(offset, max(1, max_bytes))
        subagent = bool(read.lines) and format.is_subagent(file.first())
        entries: list[TranscriptEntry] = []
        unknown = broken = 0
        for at, line in read.lines:
            parsed = parse(line)
            in_line = None if parsed is None else format.entries(parsed)
            broken += parsed is None
            unknown += parsed is not None and in_line is None
            entries += [replace(entry, offset=at, subagent=entry.subagent or subagent) for entry in in_line or ()]
        return Batch(
            entries, read.next_offset, read.more, False, unknown, broken, read.oversized,
            file.mark(read.next_offset), file.signature,
        )  # fmt: skip


def head_of(path: str) -> str | None:
    """A digest that identifies the file by its first line; None while that line is incomplete."""
    with open_transcript(path) as file:
        return file.head()


def read_latest(agent: str, path: str) -> LatestTexts | None:
    """The title, the user's last prompt and the last answer, read backward from the end.

    None if the transcript contains none of them, or if the CLI's transcripts cannot be read.
    """
    format = transcript_format(agent)
    if format is None:
        return None
    with open_transcript(path) as file:
        texts = LatestTexts()
        for count in BACKWARD_BYTES:
            start = max(0, file.size - count)
            texts = _latest_in(format, _lines_backward(file, start))
            if start == 0 or (texts.prompt is not None and texts.answer is not None):
                break
        if texts.title is None:
            front = file.lines(0, FORWARD_BYTES)
            early = _latest_in(format, [line for _, line in reversed(front.lines)], only_title=True)
            texts = texts._replace(title=early.title)
    return texts if texts[:3] != (None, None, None) else None


def start_at(agent: str, path: str, since_ms: int) -> int:
    """The offset after the last line that was written before a point in time.

    Lines are in order of time, so a binary search finds the offset with a few reads, even in a long transcript.
    """
    format = _require_format(agent)
    with open_transcript(path) as file:
        low, high = 0, file.size
        while high - low > SEARCH_BYTES:
            middle = (low + high) // 2
            timed = _first_timed(format, file, middle, high)
            if timed is None or timed[1] >= since_ms:
                high = middle
            else:
                low = timed[0]
        start = low
        for at, line in _lines_forward(file, low):
            written_ms = _time_in(format, line)
            if written_ms is not None and written_ms >= since_ms:
                break
            if written_ms is not None:
                start = at + len(line) + 1
        return start


def end_of(path: str) -> int:
    """The offset after the last whole line."""
    with open_transcript(path) as file:
        end = file.size
        while end > 0:
            start = max(0, end - BATCH_BYTES)
            newline = file.piece(start, end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0


def _require_format(agent: str) -> TranscriptFormat:
    format = transcript_format(agent)
    if format is None:
        readable = ", ".join(each.name for each in registry.AGENTS if each.transcript is not None)
        raise BadInput(f"transcripts of {short_repr(agent)} cannot be read; use one of {readable}")
    return format


def _latest_in(format: TranscriptFormat, lines: Sequence[bytes], *, only_title: bool = False) -> LatestTexts:
    """The latest texts in `lines`, which are in reverse order."""
    title = summary = prompt = answer = None
    is_answered = True
    for line in lines:
        complete = only_title or (prompt is not None and answer is not None)
        if complete and (title is not None or not any(mark in line for mark in format.title_marks)):
            continue
        parsed = parse(line)
        for entry in reversed((format.entries(parsed) or []) if parsed is not None else []):
            match entry.kind:
                case "title":
                    title = title or entry.text
                case "summary" if summary is None and _is_own_summary(entry, line, lines):
                    summary = entry.text
                case "user" if not entry.injected and not entry.subagent:
                    prompt, is_answered = (entry.text, answer is not None) if prompt is None else (prompt, is_answered)
                case "assistant" if not entry.injected and not entry.subagent:
                    answer = answer or entry.text
    return LatestTexts(title or summary) if only_title else LatestTexts(title or summary, prompt, answer, is_answered)


def _is_own_summary(entry: TranscriptEntry, line: bytes, lines: Sequence[bytes]) -> bool:
    """A transcript may hold summaries of other sessions. Its own summary has the id of a message in this file."""
    return entry.id is not None and any(entry.id.encode() in other for other in lines if other is not line)


def _lines_backward(file: Transcript, start: int) -> list[bytes]:
    raw = file.piece(start, file.size - start)
    whole = raw[: raw.rfind(b"\n") + 1].split(b"\n")[:-1]
    return [line for line in reversed(whole if start == 0 else whole[1:]) if line.strip() and len(line) <= LINE_MAX]


def _lines_forward(file: Transcript, offset: int) -> Iterator[tuple[int, bytes]]:
    while True:
        read = file.lines(offset, BATCH_BYTES)
        yield from read.lines
        if read.next_offset == offset:
            return
        offset = read.next_offset


def _first_timed(format: TranscriptFormat, file: Transcript, offset: int, until: int) -> tuple[int, int] | None:
    """Offset and time of the first line with a time that begins after `offset` and before `until`."""
    for at, line in _lines_forward(file, offset):
        if at >= until:
            return None
        written_ms = None if at == offset else _time_in(format, line)  # the first one may be the end of a line
        if written_ms is not None:
            return at, written_ms
    return None


def _time_in(format: TranscriptFormat, line: bytes) -> int | None:
    parsed = parse(line)
    if parsed is None:
        return None
    try:
        return parse_time(format.written_at(parsed), "timestamp")
    except BadInput:
        return None

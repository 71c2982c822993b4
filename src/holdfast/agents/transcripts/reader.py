"""Reading transcripts: forward in batches, backward for the last words, by halves for a moment in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from holdfast.agents.claude import transcript as claude
from holdfast.agents.codex import transcript as codex
from holdfast.agents.copilot import transcript as copilot
from holdfast.agents.gemini import transcript as gemini
from holdfast.agents.qwen import transcript as qwen
from holdfast.agents.transcripts.entry import Entry, Record, object_of
from holdfast.agents.transcripts.file import LINE_MAX, Mark, Signature, Transcript, opened, parse
from holdfast.domain.errors import BadInput
from holdfast.domain.event import parse_time
from holdfast.domain.text import short_repr

BATCH_BYTES = 64 * 1024
LOOK_BACK_BYTES = (128 * 1024, 1024 * 1024, 4 * 1024 * 1024)
LOOK_FRONT_BYTES = 64 * 1024
NEAR_BYTES = 64 * 1024


class Format(Protocol):
    """What a module for one CLI's format offers."""

    @property
    def TITLE_MARKS(self) -> tuple[bytes, ...]: ...  # noqa: N802

    def entries(self, record: Record, /) -> list[Entry] | None: ...
    def is_subagent(self, first: Record, /) -> bool: ...


FORMATS: dict[str, Format] = {
    "claude": claude, "codex": codex, "gemini": gemini, "copilot": copilot, "qwen": qwen
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Batch:
    """What was read, and where to go on.

    `more`: there may be more to read at once. `replaced`: the file is not the one that was read before, so nothing
    was read, and `next_offset` is its beginning. `unknown`, `broken`, `oversized` count the lines left out.
    """

    entries: list[Entry]
    next_offset: int
    more: bool = False
    replaced: bool = False
    unknown: int = 0
    broken: int = 0
    oversized: int = 0
    mark: Mark | None = None
    signature: Signature | None = None


class LastWords(NamedTuple):
    """What a transcript says of its session as a whole."""

    title: str | None = None
    prompt: str | None = None
    answer: str | None = None


def read(agent: str, path: str, offset: int = 0, most_bytes: int = BATCH_BYTES, mark: Mark | None = None) -> Batch:
    """The entries from `offset` on, out of whole lines only. With the `mark` of an earlier batch, a file that was
    rewritten in the meantime is noticed even if it is longer than before.

    Whatever the lines hold, this does not raise; it does for a file that is missing (OSError) or refused (BadInput).
    """
    format = format_of(agent)
    with opened(path) as file:
        if not file.fits(offset, mark):
            return Batch([], 0, more=True, replaced=True, signature=file.signature)
        lines = file.lines(offset, max(1, most_bytes))
        subagent = bool(lines.found) and format.is_subagent(file.first())
        entries: list[Entry] = []
        unknown = broken = 0
        for at, line in lines.found:
            record = parse(line)
            found = None if record is None else format.entries(record)
            broken += record is None
            unknown += record is not None and found is None
            entries += [replace(entry, offset=at, subagent=entry.subagent or subagent) for entry in found or ()]
        return Batch(
            entries, lines.next_offset, lines.more, False, unknown, broken, lines.oversized,
            file.mark(lines.next_offset), file.signature,
        )  # fmt: skip


def head_of(path: str) -> str | None:
    """How the file begins, by which it is known again; None while it has no beginning yet."""
    with opened(path) as file:
        return file.head()


def last_words(agent: str, path: str) -> LastWords | None:
    """Title, last prompt of the user and last answer, read from the end.

    None if the transcript tells none of them, or is of a CLI whose transcripts are not known here.
    """
    format = FORMATS.get(agent)
    if format is None:
        return None
    with opened(path) as file:
        words = LastWords()
        for count in LOOK_BACK_BYTES:
            start = max(0, file.size - count)
            words = _last_in(format, _lines_back(file, start))
            if start == 0 or (words.prompt is not None and words.answer is not None):
                break
        if words.title is None:
            front = file.lines(0, LOOK_FRONT_BYTES)
            early = _last_in(format, [line for _, line in reversed(front.found)], only_title=True)
            words = words._replace(title=early.title)
    return words if any(words) else None


def start_at(path: str, since_ms: int) -> int:
    """The place right behind the last line that was written before that moment.

    Lines stand in the order of time, so the place is found by halves: a long transcript costs a few reads.
    """
    with opened(path) as file:
        low, high = 0, file.size
        while high - low > NEAR_BYTES:
            middle = (low + high) // 2
            found = _timed_after(file, middle, high)
            if found is None or found[1] >= since_ms:
                high = middle
            else:
                low = found[0]
        place = low
        for at, line in _lines_on(file, low):
            written = _time_in(line)
            if written is not None and written >= since_ms:
                break
            if written is not None:
                place = at + len(line) + 1
        return place


def end_of(path: str) -> int:
    """The place behind the last whole line."""
    with opened(path) as file:
        end = file.size
        while end > 0:
            start = max(0, end - BATCH_BYTES)
            found = file.piece(start, end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0


def format_of(agent: str) -> Format:
    if agent not in FORMATS:
        raise BadInput(f"transcripts of {short_repr(agent)} cannot be read; known are {', '.join(FORMATS)}")
    return FORMATS[agent]


def _last_in(format: Format, lines: Sequence[bytes], *, only_title: bool = False) -> LastWords:
    """`lines` are the last ones first."""
    title = summary = prompt = answer = None
    for line in lines:
        talked = only_title or (prompt is not None and answer is not None)
        if talked and (title is not None or not any(mark in line for mark in format.TITLE_MARKS)):
            continue
        record = parse(line)
        for entry in reversed((format.entries(record) or []) if record is not None else []):
            match entry.kind:
                case "title":
                    title = title or entry.text
                case "summary" if summary is None and _is_of_here(entry, line, lines):
                    summary = entry.text
                case "user" if not entry.injected and not entry.subagent:
                    prompt = prompt or entry.text
                case "assistant" if not entry.injected and not entry.subagent:
                    answer = answer or entry.text
    return LastWords(title or summary, *((None, None) if only_title else (prompt, answer)))


def _is_of_here(entry: Entry, line: bytes, lines: Sequence[bytes]) -> bool:
    """Claude Code may write other sessions' summaries into a transcript; its own name a message that is in it."""
    return entry.id is not None and any(entry.id.encode() in other for other in lines if other is not line)


def _lines_back(file: Transcript, start: int) -> list[bytes]:
    raw = file.piece(start, file.size - start)
    whole = raw[: raw.rfind(b"\n") + 1].split(b"\n")[:-1]
    return [line for line in reversed(whole if start == 0 else whole[1:]) if line.strip() and len(line) <= LINE_MAX]


def _lines_on(file: Transcript, offset: int) -> Iterator[tuple[int, bytes]]:
    while True:
        lines = file.lines(offset, BATCH_BYTES)
        yield from lines.found
        if lines.next_offset == offset:
            return
        offset = lines.next_offset


def _timed_after(file: Transcript, offset: int, until: int) -> tuple[int, int] | None:
    """The first line that begins after `offset`, before `until`, and says when it was written."""
    for at, line in _lines_on(file, offset):
        if at >= until:
            return None
        written = None if at == offset else _time_in(line)  # the first piece may be the end of a line
        if written is not None:
            return at, written
    return None


def _time_in(line: bytes) -> int | None:
    record = parse(line)
    if record is None:
        return None
    value = record.get("timestamp") or record.get("startTime") or object_of(record.get("$set")).get("lastUpdated")
    try:
        return parse_time(value, "timestamp")
    except BadInput:
        return None

"""Files of JSON lines, one for each stream or one for the whole sink. Every batch is synced before it is confirmed.

A crash in the middle of a write leaves a torn last line, which is cut off before the next write. The last lines of a
file say how far its streams were written, so an event that is sent again is not written twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from holdfast.domain.errors import BadConfig
from holdfast.domain.event import Event
from holdfast.ports import in_thread
from holdfast.streams.sinks.settings import Settings, event_body
from holdfast.streams.sinks.sink import SinkConfig

NAME_MAX = 200
REMEMBERED_MAX = 10_000
BLOCK = 64 * 1024


class Last(NamedTuple):
    """The last event of a stream in a file. `id` is empty if the stream is not in it."""

    seq: int
    id: str


class FileSink:
    """Appends to files below the folder of its URL, such as `file:///var/log/runs`."""

    def __init__(self, config: SinkConfig) -> None:
        self._settings = settings = Settings(config)
        template = str(config.options.get("file", "{stream}.jsonl"))
        parts = Path(template).parts
        if Path(template).is_absolute() or ".." in parts:
            raise BadConfig("file must be a name below the folder of the URL, such as {stream}.jsonl")
        self._name = settings.template("file", "{stream}.jsonl", escape_name)
        self._shared = "{stream}" not in template
        settings.end()
        url = urlsplit(config.url)
        if url.netloc not in ("", "localhost") or not url.path.startswith("/"):
            raise BadConfig("the URL of a file sink is file:// and an absolute path, such as file:///var/log/runs")
        self._folder = Path(unquote(url.path))
        self._locks: dict[Path, asyncio.Lock] = {}
        self._last: OrderedDict[tuple[Path, str], Last] = OrderedDict()
        self._scanned: set[Path] = set()

    @property
    def name(self) -> str:
        return self._settings.config.name

    async def open(self) -> None:
        try:
            await in_thread("files", lambda: self._folder.mkdir(mode=0o700, parents=True, exist_ok=True))
        except OSError as error:
            raise self._settings.failed(error) from None

    async def publish(self, stream: str, events: Sequence[Event], replay: bool = False) -> None:
        path = self._folder / self._name(stream)
        try:
            # Not cancelled half-way: a write must be finished or undone before the next one begins.
            await asyncio.shield(asyncio.ensure_future(self._append_alone(path, stream, events, replay)))
        except OSError as error:
            raise self._settings.failed(error) from None

    async def _append_alone(self, path: Path, stream: str, events: Sequence[Event], replay: bool) -> None:
        lock = self._locks.get(path)
        if lock is None:
            if len(self._locks) > REMEMBERED_MAX:
                self._locks = {path: lock for path, lock in self._locks.items() if lock.locked()}
            lock = self._locks[path] = asyncio.Lock()
        async with lock:
            await in_thread("files", lambda: self._append(path, stream, events, replay))

    def _append(self, path: Path, stream: str, events: Sequence[Event], replay: bool) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            last = self._find_last(descriptor, path, stream)
            if not replay:
                events = self._without_stored(descriptor, stream, events, last)
            if not events:
                return
            self._write(descriptor, b"".join(event_body(event, replay) + b"\n" for event in events))
        except BaseException:
            self._forget(path)
            raise
        finally:
            os.close(descriptor)
        if is_new:
            _sync_folder(path.parent)
        if not replay:
            self._remember(path, stream, Last(events[-1].seq, events[-1].id))

    def _write(self, descriptor: int, data: bytes) -> None:
        """Write all of it and sync, or leave the file as it was."""
        size = os.fstat(descriptor).st_size
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise

    def _find_last(self, descriptor: int, path: Path, stream: str) -> Last:
        """How far a stream was written. The torn line of a crash is cut off first."""
        known = self._last.get((path, stream))
        if known is not None:
            return known
        if path in self._scanned:
            return Last(0, "")
        _cut_torn_line(descriptor)
        if not self._shared:
            found = next((last for name, last in _entries(descriptor) if name == stream), Last(0, ""))
            self._remember(path, stream, found)
            return found
        seen: set[str] = set()
        for name, last in _entries(descriptor):  # the newest first
            if name not in seen:
                seen.add(name)
                self._last[path, name] = last
        self._scanned.add(path)
        return self._last.get((path, stream), Last(0, ""))

    def _without_stored(self, descriptor: int, stream: str, events: Sequence[Event], last: Last) -> Sequence[Event]:
        """The events that are not in the file yet. Those that are must be the same ones."""
        stored = [event for event in events if event.seq <= last.seq]
        if stored:
            first = stored[0]
            found = next(
                (entry for name, entry in _entries(descriptor) if name == stream and entry.seq <= first.seq),
                Last(0, ""),
            )
            if found != Last(first.seq, first.id):
                raise self._settings.failed(
                    f"the file holds another event {first.seq} of stream {stream!r}; move the file away, or set "
                    "another `file`"
                )
        return events[len(stored) :]

    def _remember(self, path: Path, stream: str, last: Last) -> None:
        self._last[path, stream] = last
        if not self._shared and len(self._last) > REMEMBERED_MAX:
            self._last.popitem(last=False)

    def _forget(self, path: Path) -> None:
        """After a failure the file is read again."""
        self._scanned.discard(path)
        for key in [key for key in list(self._last) if key[0] == path]:
            self._last.pop(key, None)

    async def durability(self) -> str:
        return "Every batch is synced to disk before it is confirmed."

    async def close(self) -> None:
        self._last.clear()
        self._scanned.clear()


def escape_name(stream: str) -> str:
    """A stream's name as a file name. Names of different streams stay different, also if letter case is ignored.

    >>> escape_name("run:1"), escape_name("a/b")
    ('run%3A1', 'a%2Fb')
    """
    name = quote(stream, safe="")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) <= NAME_MAX and stream == stream.lower():
        return name
    return f"{name[: NAME_MAX - 33]}+{hashlib.sha256(stream.encode()).hexdigest()[:32]}"


def _cut_torn_line(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return
    end = size
    while end > 0:
        start = max(0, end - BLOCK)
        place = os.pread(descriptor, end - start, start).rfind(b"\n")
        if place >= 0:
            end = start + place + 1
            break
        end = start
    os.ftruncate(descriptor, end)
    os.fsync(descriptor)


def _entries(descriptor: int) -> Iterator[tuple[str, Last]]:
    """Stream, seq and id of each line, the newest first. Replayed events and lines of others are left out."""
    for line in _lines_backward(descriptor):
        try:
            body = json.loads(line)
            if not body.get("replay"):
                yield body["stream"], Last(body["seq"], body["id"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue


def _lines_backward(descriptor: int) -> Iterator[bytes]:
    end, rest = os.fstat(descriptor).st_size, b""
    while end > 0:
        start = max(0, end - BLOCK)
        rest = os.pread(descriptor, end - start, start) + rest
        first, *lines = rest.split(b"\n")
        yield from (line for line in reversed(lines) if line)
        rest, end = first, start
    if rest:
        yield rest


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""One archive: JSON lines compressed with zstd, and a manifest beside it that says what must be in the file.

The files hold payloads in clear, so only their owner can read them. A file is complete before it gets its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from holdfast.domain.errors import StoreError
from holdfast.domain.event import Event, iso_time
from holdfast.domain.json_value import KnownJson
from holdfast.store.roles.archives import ArchiveRow, EventRange

VERSION = 1
EVENTS, MANIFEST = ".jsonl.zst", ".manifest.json"
LINE_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive holds. `sha256` is of the compressed file, `content_sha256` of its lines."""

    id: str
    version: int
    created_at: str
    events: int
    bytes: int
    sha256: str
    content_sha256: str
    streams: list[EventRange]

    def row(self, created_at_ms: int) -> ArchiveRow:
        return ArchiveRow(self.id, self.events, self.bytes, self.sha256, created_at_ms)


class BadArchive(StoreError):
    """An archive is missing, damaged, or not what its manifest says."""


def write_archive(folder: Path, id: str, events: Iterable[Event], created_at_ms: int) -> Manifest:
    """Write, sync, read back and compare. Raises BadArchive, and leaves no file then."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = folder / f"{id}.partial"
    try:
        manifest = _write_events(partial, id, events, created_at_ms)
        check_file(partial, manifest)
        _write_synced(folder / f"{id}{MANIFEST}", json.dumps(asdict(manifest), ensure_ascii=False, indent=1).encode())
        partial.rename(folder / f"{id}{EVENTS}")
        _sync_folder(folder)
    except BaseException:
        for name in (partial.name, f"{id}{MANIFEST}"):
            (folder / name).unlink(missing_ok=True)
        raise
    return manifest


def remove_archive(folder: Path, id: str) -> None:
    for suffix in (EVENTS, MANIFEST):
        (folder / f"{id}{suffix}").unlink(missing_ok=True)


def read_manifest(folder: Path, id: str) -> Manifest:
    """The manifest of an archive. Raises BadArchive."""
    try:
        value: KnownJson = json.loads((folder / f"{id}{MANIFEST}").read_bytes())
        ranges = [EventRange(str(stream), int(first), int(last)) for stream, first, last in value.pop("streams")]
        manifest = Manifest(**value, streams=ranges)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadArchive(f"the manifest of archive {id} cannot be read ({error})") from None
    if manifest.version > VERSION:
        raise BadArchive(f"archive {id} has version {manifest.version}; this Holdfast reads up to {VERSION}")
    return manifest


def manifests(folder: Path) -> list[str]:
    """The ids of all archives in a folder, in the order in which they were written."""
    return sorted(path.name.removesuffix(MANIFEST) for path in folder.glob(f"*{MANIFEST}"))


def verify_archive(folder: Path, id: str) -> Manifest:
    """Check every byte of an archive against its manifest. Raises BadArchive."""
    manifest = read_manifest(folder, id)
    check_file(folder / f"{id}{EVENTS}", manifest)
    return manifest


def read_events(folder: Path, id: str, stream: str, first_seq: int, last_seq: int) -> Iterator[Event]:
    """The events of one stream in an archive, in order."""
    for line in _lines(folder / f"{id}{EVENTS}", id):
        event = _event_of(line, id)
        if event.stream == stream and first_seq <= event.seq <= last_seq:
            yield event


def check_file(path: Path, manifest: Manifest) -> None:
    try:
        raw = hashlib.sha256()
        with path.open("rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                raw.update(block)
    except OSError as error:
        raise BadArchive(f"archive {manifest.id} cannot be read ({error.strerror})") from None
    if raw.hexdigest() != manifest.sha256:
        raise BadArchive(f"archive {manifest.id} is damaged: its checksum differs from the manifest")
    content, count = hashlib.sha256(), 0
    places = {one.stream: one.first_seq for one in manifest.streams}
    for line in _lines(path, manifest.id):
        content.update(line)
        event, count = _event_of(line, manifest.id), count + 1
        if places.get(event.stream) != event.seq:
            raise BadArchive(f"archive {manifest.id} has a gap in stream {event.stream!r} before {event.seq}")
        places[event.stream] = event.seq + 1
    ends = {one.stream: one.last_seq + 1 for one in manifest.streams}
    if content.hexdigest() != manifest.content_sha256 or count != manifest.events or places != ends:
        raise BadArchive(f"archive {manifest.id} does not hold the events that its manifest lists")


def _write_events(path: Path, id: str, events: Iterable[Event], created_at_ms: int) -> Manifest:
    zstd = load_zstd()
    content, count = hashlib.sha256(), 0
    ranges: dict[str, EventRange] = {}
    with _create(path) as file:
        with zstd.open(file, "wb", options={zstd.CompressionParameter.checksum_flag: 1}) as packed:
            for event in events:
                line = _line_of(event)
                packed.write(line)
                content.update(line)
                first = ranges[event.stream].first_seq if event.stream in ranges else event.seq
                ranges[event.stream], count = EventRange(event.stream, first, event.seq), count + 1
        file.flush()
        os.fsync(file.fileno())
    raw = path.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    streams = list(ranges.values())
    return Manifest(id, VERSION, iso_time(created_at_ms), count, len(raw), digest, content.hexdigest(), streams)


def _line_of(event: Event) -> bytes:
    """Payload and properties are stored as they are, or as text where reading and writing them would change them."""
    fields: dict[str, object] = {
        "id": event.id, "stream": event.stream, "seq": event.seq, "source": event.source, "type": event.type,
        "timestamp": event.timestamp, "accepted_at_ms": event.accepted_at_ms, "to": event.to,
    }  # fmt: skip
    for name, text in (("properties", event.properties_json), ("payload", event.payload_json)):
        try:
            value = json.loads(text)
            exact = _dump(value) == text
        except (ValueError, RecursionError):
            exact = False
        fields[name if exact else f"{name}_text"] = value if exact else text
    return _dump(fields).encode("utf-8", "surrogatepass") + b"\n"


def _event_of(line: bytes, id: str) -> Event:
    try:
        value: KnownJson = json.loads(line.decode("utf-8", "surrogatepass"))
        texts = [
            value[f"{name}_text"] if f"{name}_text" in value else _dump(value[name])
            for name in ("properties", "payload")
        ]
        return Event(
            0, value["id"], value["stream"], value["seq"], value["source"], value["type"], value["timestamp"],
            value["accepted_at_ms"], texts[0], texts[1], value["to"],
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise BadArchive(f"archive {id} has a line that is not an event ({error})") from None


def _lines(path: Path, id: str) -> Iterator[bytes]:
    zstd = load_zstd()
    try:
        with zstd.open(path, "rb") as file:
            while line := file.readline(LINE_MAX):
                yield line
    except (OSError, EOFError, zstd.ZstdError) as error:
        raise BadArchive(f"archive {id} is damaged or missing ({error})") from None


def _write_synced(path: Path, raw: bytes) -> None:
    with _create(path) as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


def _create(path: Path) -> BinaryIO:
    """A new file that only its owner can read."""
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600), "wb")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def load_zstd() -> ModuleType:
    """zstd of the standard library, or its backport before Python 3.14."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")

"""What a disk that honors fsync may hold after a power cut: all synced writes, and any part of the others.

Until a file is synced, its writes may or may not reach the disk, in any order, and a write may be torn between sectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from holdfast.proof.power_cuts.recorder import Op

SECTOR = 512
WAYS = ("dropped", "kept", "subset", "torn", "cut")


@dataclass(frozen=True, slots=True)
class Image:
    """The files after a cut just before operation `point`. `way`: what happened to the unsynced writes."""

    point: int
    way: str
    files: dict[str, bytes]

    def write(self, database: Path) -> None:
        for file in ("", "-wal", "-journal"):
            path = database.with_name(database.name + file)
            if file in self.files:
                path.write_bytes(self.files[file])
            else:
                path.unlink(missing_ok=True)
        database.with_name(database.name + "-shm").unlink(missing_ok=True)


@dataclass(slots=True)
class _File:
    safe: bytearray = field(default_factory=bytearray)
    loose: list[Op] = field(default_factory=list)


def images(ops: Sequence[Op], points: Sequence[int], chance: Random) -> Iterator[Image]:
    """At each point, one image for each way unsynced writes can end; one image if there are none."""
    files: dict[str, _File] = {}
    wanted = set(points)
    for point in range(len(ops) + 1):
        if point in wanted:
            loose = any(file.loose for file in files.values())
            for way in WAYS if loose else ("kept",):
                yield Image(point, way, {name: _left(file, way, chance) for name, file in files.items()})
        if point < len(ops):
            _do(files, ops[point])


def counts(ops: Sequence[Op]) -> list[int]:
    """The number of images at each point."""
    files: dict[str, _File] = {}
    found = []
    for op in (*ops, None):
        found.append(len(WAYS) if any(file.loose for file in files.values()) else 1)
        if op is not None:
            _do(files, op)
    return found


def _do(files: dict[str, _File], op: Op) -> None:
    if op.kind == "delete":  # SQLite deletes a log only after its content is synced to the database
        files.pop(op.file, None)
        return
    file = files.setdefault(op.file, _File())
    if op.kind == "sync":
        for loose in file.loose:
            _apply(file.safe, loose)
        file.loose.clear()
    else:
        file.loose.append(op)


def _left(file: _File, way: str, chance: Random) -> bytes:
    if way == "dropped" or not file.loose:
        return bytes(file.safe)
    content = bytearray(file.safe)
    end = chance.randrange(len(file.loose) + 1)
    for index, op in enumerate(file.loose):
        if way == "kept" or (way == "cut" and index < end) or (way == "subset" and chance.random() < 0.5):
            _apply(content, op)
        elif way == "cut" and index == end:
            _tear(content, op, chance, in_order=True)
        elif way == "torn":
            _tear(content, op, chance, in_order=False)
    return bytes(content)


def _tear(content: bytearray, op: Op, chance: Random, in_order: bool) -> None:
    """Apply only some sectors of a write: the first ones, or any."""
    if op.kind != "write":
        if chance.random() < 0.5:
            _apply(content, op)
        return
    starts = list(range(0, len(op.data), SECTOR))
    if in_order:
        chosen = starts[: chance.randrange(len(starts) + 1)]
    else:
        chosen = [start for start in starts if chance.random() < 0.7]
    for start in chosen:
        _apply(content, Op("write", op.file, op.at + start, op.data[start : start + SECTOR]))


def _apply(content: bytearray, op: Op) -> None:
    if op.kind == "truncate":
        del content[op.at :]
        content.extend(bytes(op.at - len(content)))
        return
    end = op.at + len(op.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[op.at : end] = op.data

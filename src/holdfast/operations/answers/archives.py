"""Answers about archives and replays."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.operations.answers.fields import HexDigest, Time


@dataclass(frozen=True, slots=True)
class ArchiveAnswer:
    """An archive: how many events it holds, and the size and digest of its file."""

    id: str
    events: int
    bytes: int
    sha256: HexDigest
    created_at: Time


@dataclass(frozen=True, slots=True)
class ArchiveFault:
    """What is wrong with an archive."""

    id: str
    fault: str


@dataclass(frozen=True, slots=True)
class ArchiveVerification:
    """The result of reading every archive. `checked` archives hold `events` events."""

    checked: int
    events: int
    faults: list[ArchiveFault]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A part of a replay. `next`: the `seq` to continue with; null: the replay is complete."""

    stream: str
    replayed: int
    next: int | None

"""Archives: which events of streams are in which file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class EventRange(NamedTuple):
    """Consecutive events of one stream, both ends included."""

    stream: str
    first_seq: int
    last_seq: int


class ArchivedRange(NamedTuple):
    """Consecutive events of one stream in an archive."""

    stream: str
    first_seq: int
    last_seq: int
    archive: str


class ArchiveRow(NamedTuple):
    """An archive: the digest and size of its file, and how many events it holds."""

    id: str
    events: int
    bytes: int
    sha256: str
    created_at_ms: int


class Archives(Protocol):
    """The record of archives. Retention removes an event of a stream only after it is recorded here."""

    async def archivable(self, before_ms: int, limit: int) -> list[EventRange]:
        """Events of streams accepted before then that nothing needs and that are in no archive, from each front."""

    async def record(self, archive: ArchiveRow, ranges: Sequence[EventRange]) -> bool:
        """Record a file that was written and checked. False: another process archived some of the events already."""

    async def all(self, after: str, limit: int) -> list[ArchiveRow]:
        """Archives by id, after this one."""

    async def holding(self, stream: str, after_seq: int, limit: int) -> list[ArchivedRange]:
        """The ranges of a stream that end after a `seq`, in order."""

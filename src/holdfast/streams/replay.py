"""Reads a range of a stream again, from the store or from archives."""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import Path

from holdfast.domain.errors import PositionPruned
from holdfast.domain.event import Event
from holdfast.ports import in_thread
from holdfast.store.roles.archives import ArchivedRange
from holdfast.store.roles.store import Store
from holdfast.streams.archive.archive_file import read_events


async def read_again(store: Store, folder: Path | None, stream: str, after: int, last: int, limit: int) -> list[Event]:
    """Events `after` + 1 to `last` of a stream, at most `limit`. Raises PositionPruned if they are nowhere."""
    first = await store.events.first_seq(stream)
    if first is not None and first <= after + 1:
        return [event for event in await store.events.read(stream, after, limit) if event.seq <= last]
    held = await store.archives.holding(stream, after, 1)
    if folder is None or not held or held[0].first_seq > after + 1:
        row = await store.events.stream(stream)
        head = 0 if row is None else row.head
        raise PositionPruned.at(stream, after, head + 1 if first is None else first, archived=bool(held))
    return await in_thread("files", partial(_read, folder, held[0], after, last, limit))


def _read(folder: Path, held: ArchivedRange, after: int, last: int, limit: int) -> list[Event]:
    found = read_events(folder, held.archive, held.stream, after + 1, min(last, held.last_seq))
    return list(islice(found, limit))

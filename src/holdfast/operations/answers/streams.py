"""Answers about streams."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.domain.event import iso_time
from holdfast.operations.answers.fields import Time, time_or_none
from holdfast.operations.answers.readers import CursorAnswer
from holdfast.store.roles.events import StreamRow


@dataclass(frozen=True, slots=True)
class StreamAnswer:
    """One stream. `head` is the `seq` of its last event."""

    id: str
    head: int
    created_at: Time
    closed_at: Time | None


@dataclass(frozen=True, slots=True)
class StreamDetail(StreamAnswer):
    """One stream with its readers. `first_seq`: the first stored event; retention removed those before it.

    It is null if no event is stored.
    """

    first_seq: int | None
    cursors: list[CursorAnswer]


def stream_answer(row: StreamRow) -> StreamAnswer:
    return StreamAnswer(row.id, row.head, iso_time(row.created_at_ms), time_or_none(row.closed_at_ms))

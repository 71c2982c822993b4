"""A reader gets the events of a stream without a gap. What is missing was pruned, or it is a fault."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.domain.event import Event


def unbroken(position: int, events: Sequence[Event]) -> int:
    """How many of these events follow the position and one another without a gap."""
    for count, event in enumerate(events):
        if event.seq != position + 1 + count:
            return count
    return len(events)


def describe_gap(stream: str, position: int, first_seq: int | None) -> str:
    """Why the event after a position is missing. `first_seq`: the first stored event of the stream.

    >>> describe_gap("run:1", 3, 7)
    "retention removed the events of 'run:1' before 7, and the reader is at 3"
    """
    if first_seq is None:
        return f"retention removed all events of {stream!r}, and the reader is at {position}"
    if first_seq > position:
        return f"retention removed the events of {stream!r} before {first_seq}, and the reader is at {position}"
    return f"event {position + 1} of {stream!r} is missing although later ones are stored: the store is damaged"

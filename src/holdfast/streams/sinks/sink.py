"""The sink protocol: one destination for the events of streams. CONTRIBUTING.md shows how to add one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.domain.event import Event
from holdfast.domain.reader import BEGINNING, Reader

Option = str | int | float | bool
POISON_POLICIES = ("stop", "skip", "quarantine")


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """One entry of `streams.sinks` in the configuration, checked. `options` are the keys of that kind of sink.

    URL and options may hold credentials, so neither is part of the representation.
    """

    name: str
    url: str = field(repr=False)
    streams: str  # a pattern such as run:*
    options: dict[str, Option] = field(default_factory=dict, repr=False)
    start: str = BEGINNING
    poison: str = "stop"

    @property
    def reader(self) -> Reader:
        """The reader whose cursors this sink advances."""
        return Reader(f"sink:{self.name}", self.streams, self.start)


class PublishFailed(Exception):
    """A batch was not published as a whole.

    The first `published` events of the batch are confirmed by the sink; nothing is known of the others. `poison`: the
    sink will refuse the next event every time (it is too large, for example), so a retry is useless.
    """

    def __init__(self, message: str, published: int = 0, poison: bool = False) -> None:
        super().__init__(message)
        self.published = published
        self.poison = poison


class Sink(Protocol):
    """Publishes events of streams, in order. One call at a time per stream; calls for several streams may overlap."""

    @property
    def name(self) -> str:
        """The sink's name in the configuration. Its reader is `sink:NAME`."""

    async def open(self) -> None:
        """Connect. Raises PublishFailed if the server cannot be reached; the publisher calls it again later."""

    async def publish(self, stream: str, events: Sequence[Event], replay: bool = False) -> None:
        """Send a batch of one stream in `seq` order and return when the sink has confirmed all of it.

        Sending an event again, after a crash or a lost answer, must not store it twice where the sink can prevent it.
        `replay`: mark the events as repeated on purpose. Raises PublishFailed.
        """

    async def durability(self) -> str:
        """One sentence on what the server's own settings promise for confirmed events, for `holdfast doctor`."""

    async def close(self) -> None:
        """Release connections."""

"""Late spool records: those imported after a newer record of the same stream."""

from __future__ import annotations

from holdfast.ingress.spool import SpoolPosition

STREAMS_MAX = 10_000


class LateRecords:
    """The newest imported record of each stream, over all spool folders of a home; at most 10,000 recent streams.

    Streams are compared separately: of two concurrent writers, the one that started first may finish last.
    """

    def __init__(self) -> None:
        self._newest: dict[str | None, tuple[str, int]] = {}
        self._read: dict[str | None, tuple[str, int]] = {}

    def begin(self) -> None:
        """Start a batch. Records of an earlier batch that was not kept are read again, and must not count as late."""
        self._read = {}

    def is_late(self, position: SpoolPosition, stream: str | None) -> bool:
        here = (position.boot, position.since_boot_ns)
        newest = self._read.get(stream) or self._newest.get(stream)
        late = newest is not None and newest[0] == position.boot and here < newest
        if not late:
            self._read[stream] = here
        return late

    def keep(self) -> None:
        """The records of the batch are stored."""
        for stream, moment in self._read.items():
            self._newest.pop(stream, None)
            self._newest[stream] = moment
        for stream in list(self._newest)[: max(0, len(self._newest) - STREAMS_MAX)]:
            del self._newest[stream]

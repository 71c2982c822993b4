"""Whether a record of the spool comes late: after a newer one of its stream was imported."""

from __future__ import annotations

from holdfast.ingress.spool import SpoolPosition

STREAMS_MAX = 10_000


class Lateness:
    """The newest record of each stream, over all folders of a home; of the streams heard of last.

    Records of other streams say nothing: of two writers at work at once, the one that began first may end last.
    """

    def __init__(self) -> None:
        self._newest: dict[str | None, tuple[str, int]] = {}
        self._read: dict[str | None, tuple[str, int]] = {}

    def begin(self) -> None:
        """A batch is read. What was read before and not kept comes again, and is no later for it."""
        self._read = {}

    def is_late(self, place: SpoolPosition, stream: str | None) -> bool:
        here = (place.boot, place.since_boot_ns)
        newest = self._read.get(stream) or self._newest.get(stream)
        late = newest is not None and newest[0] == place.boot and here < newest
        if not late:
            self._read[stream] = here
        return late

    def keep(self) -> None:
        """What was read is stored."""
        for stream, moment in self._read.items():
            self._newest.pop(stream, None)
            self._newest[stream] = moment
        for stream in list(self._newest)[: max(0, len(self._newest) - STREAMS_MAX)]:
            del self._newest[stream]

"""What a sink must hold after a campaign: every stored event of every stream, in order. Pure functions of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Stored:
    """One event as a sink or the store holds it."""

    id: str
    seq: int


@dataclass(slots=True)
class Campaign:
    """What was seen: the accepted events, the store and each sink by stream, kills by kind, and pauses in seconds."""

    accepted: dict[str, list[str]] = field(default_factory=dict)
    store: dict[str, list[Stored]] = field(default_factory=dict)
    sinks: dict[str, dict[str, list[Stored]]] = field(default_factory=dict)
    kills: dict[str, int] = field(default_factory=dict)
    pauses_s: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def events(self) -> int:
        return sum(map(len, self.store.values()))

    @property
    def repeats(self) -> int:
        """Events that a sink holds more than once. Delivery is at least once, so these are counted, not refused."""
        held = [events for streams in self.sinks.values() for events in streams.values()]
        return sum(len(events) - len({event.id for event in events}) for events in held)

    @property
    def violations(self) -> list[str]:
        return [*self.faults, *judge(self.accepted, self.store, self.sinks)]


def judge(
    accepted: Mapping[str, Sequence[str]],
    store: Mapping[str, Sequence[Stored]],
    sinks: Mapping[str, Mapping[str, Sequence[Stored]]],
) -> list[str]:
    """One line for each broken promise, as `promise: what`."""
    found: list[str] = []
    for stream, ids in accepted.items():
        missing = set(ids) - {event.id for event in store.get(stream, ())}
        if missing:
            found.append(f"lost: the store lacks {len(missing)} accepted events of {stream}")
    for stream, events in store.items():
        if [event.seq for event in events] != list(range(1, len(events) + 1)):
            found.append(f"order: the store has a gap in {stream}")
    for name, streams in sinks.items():
        for stream, events in store.items():
            found += _judge_stream(f"sink {name}, stream {stream}", events, streams.get(stream, ()))
        for stream in streams.keys() - store.keys():
            found.append(f"lost: sink {name} holds {stream}, which the store does not")
    return found


def _judge_stream(where: str, expected: Sequence[Stored], held: Sequence[Stored]) -> list[str]:
    """Without repeats, a sink holds exactly the events of the store, in the same order."""
    once = list(dict.fromkeys(held))
    if once == list(expected):
        return []
    missing = [event.seq for event in expected if event not in set(once)]
    if missing:
        return [f"lost: {where}: {len(missing)} events are missing, first {missing[:SHOWN]}"]
    return [f"order: {where}: {[event.seq for event in once][:SHOWN]} …"]

"""Answers about readers of streams, sinks among them."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.domain.event import iso_time
from holdfast.operations.answers.fields import Time, time_or_none
from holdfast.store.roles.cursors import CursorState
from holdfast.store.roles.readers import ReaderState
from holdfast.streams.statistics import LATENCY_MS, SinkStatistics


@dataclass(frozen=True, slots=True)
class SinkActivity:
    """What this process has published to a sink since it started.

    Latency is the time from the acceptance of an event to the sink's confirmation. `latency_p50_ms` and
    `latency_p99_ms` are upper bounds, null without events. `latency_counts` has one number for each bound in
    `latency_bounds_ms`, and one for everything above.
    """

    published: int
    failures: int
    skipped: int
    events_per_second: float
    latency_p50_ms: int | None
    latency_p99_ms: int | None
    latency_sum_ms: int
    latency_bounds_ms: list[int]
    latency_counts: list[int]


@dataclass(frozen=True, slots=True)
class ReaderAnswer:
    """A reader of streams with its lag. A sink's reader is named sink:NAME.

    `lag_events` of `lagging_streams` are unread, the oldest since `lag_seconds`. `failing_streams`: how many of them
    failed last time, with one of their errors. `expired_streams`: those in which its cursor stood still for so long
    that retention ignores it. `activity`: null if this process does not publish to the sink.
    """

    name: str
    pattern: str
    start: str
    active: bool
    seen_at: Time
    lagging_streams: int
    lag_events: int
    lag_seconds: float
    failing_streams: int
    expired_streams: int
    error: str | None
    activity: SinkActivity | None


@dataclass(frozen=True, slots=True)
class CursorAnswer:
    """The position of one reader in one stream. `expired_at`: it did not move for so long that retention ignores it."""

    reader: str
    position: int
    lag_events: int
    updated_at: Time
    expired_at: Time | None
    failures: int
    error: str | None


def reader_answer(state: ReaderState, statistics: SinkStatistics | None, now_ms: int) -> ReaderAnswer:
    late_ms = 0 if state.oldest_ms is None else max(0, now_ms - state.oldest_ms)
    return ReaderAnswer(
        name=state.name,
        pattern=state.pattern,
        start=state.start,
        active=state.active,
        seen_at=iso_time(state.seen_at_ms),
        lagging_streams=state.streams,
        lag_events=state.events,
        lag_seconds=round(late_ms / 1000, 3),
        failing_streams=state.failing,
        expired_streams=state.expired,
        error=state.error,
        activity=None if statistics is None else _activity(statistics, now_ms),
    )


def cursor_answer(state: CursorState, head: int) -> CursorAnswer:
    return CursorAnswer(
        reader=state.reader,
        position=state.position,
        lag_events=max(0, head - state.position),
        updated_at=iso_time(state.updated_at_ms),
        expired_at=time_or_none(state.expired_at_ms),
        failures=state.failures,
        error=state.error,
    )


def _activity(statistics: SinkStatistics, now_ms: int) -> SinkActivity:
    return SinkActivity(
        published=statistics.published,
        failures=statistics.failures,
        skipped=statistics.skipped,
        events_per_second=statistics.per_second(now_ms),
        latency_p50_ms=statistics.latency_ms(0.5),
        latency_p99_ms=statistics.latency_ms(0.99),
        latency_sum_ms=statistics.latency_sum_ms,
        latency_bounds_ms=list(LATENCY_MS),
        latency_counts=list(statistics.latency_counts),
    )

"""`/metrics`: the figures in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from holdfast.operations.answers.metrics import Metrics
from holdfast.operations.answers.readers import SinkActivity
from holdfast.operations.metrics import QUEUES_SHOWN
from holdfast.operations.process_counts import BOUNDS_S, Histogram

Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
Values: TypeAlias = Iterable[tuple[Sequence[str], float]]
"""The values of a family, each with the values of its labels."""


def render(metrics: Metrics, accept: str) -> tuple[bytes, str]:
    """The text, and its content type: the one that the client asks for."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(metrics))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Figures(Collector):
    """StreamLocks one answer into metric families, without keeping metrics of its own."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Family]:
        metrics = self._metrics
        yield _gauges("build_info", "The version.", ("version",), {(metrics.version,): 1}.items())
        yield from self._store()
        yield from self._events()
        yield from self._deliveries()
        yield from self._queues()
        yield from self._readers()

    def _store(self) -> Iterator[Family]:
        metrics, sizes = self._metrics, self._metrics.sizes
        yield _gauge("accepting", "1 if new events are accepted.", int(metrics.accepting))
        duties = {(name,): int(healthy) for name, healthy in metrics.duties.items()}
        yield _gauges("duty_healthy", "1 if a background duty works.", ("duty",), duties.items())
        for name, help, value in (
            ("store_size_bytes", "Size of the store.", sizes.store),
            ("wal_size_bytes", "Size of the write-ahead log.", sizes.write_ahead_log),
            ("disk_free_bytes", "Free space on the disk of the store.", sizes.disk_free),
        ):
            if value is not None:
                yield _gauge(name, help, value)

    def _events(self) -> Iterator[Family]:
        figures, counts = self._metrics.figures, self._metrics.counts
        yield _gauge("events_stored", "Events in the store.", figures.events)
        yield _gauge("events_unrouted", "Events that wait for the router.", figures.unrouted)
        yield _gauge("spool_files", "Records that wait to be imported.", self._metrics.spooled)
        accepted = {(way,): count for way, count in counts.events_accepted.items()}
        help = "Events that this process stored, by the way they came in."
        yield _counters("events_accepted", help, ("way",), accepted.items())
        yield _counter("events_routed", "Events that this process routed.", counts.events_routed)
        yield _counter("events_unmatched", "Routed events that matched no contract.", counts.events_unmatched)

    def _deliveries(self) -> Iterator[Family]:
        metrics, figures, counts = self._metrics, self._metrics.figures, self._metrics.counts
        yield _gauge("deliveries_pending", "Deliveries that are not settled.", figures.pending)
        yield _gauge("deliveries_in_flight", "Deliveries that are leased.", figures.in_flight)
        yield _gauge("lanes_open", "Lanes with pending deliveries.", figures.lanes)
        yield _gauge("dead_letters", "Dead letters.", figures.dead)
        yield _gauge("paused", "Paused contracts, addresses and lanes.", metrics.paused)
        yield _gauge("breakers_open", "Addresses whose circuit breaker is open.", metrics.breakers_open)
        yield _gauge("contracts_misconfigured", "Contracts that cannot be delivered.", metrics.misconfigured)
        if metrics.oldest_pending_seconds is not None:
            yield _gauge(
                "oldest_pending_seconds", "Age of the oldest pending delivery.", metrics.oldest_pending_seconds
            )
        yield _counter("deliveries_created", "Deliveries that the router created.", counts.deliveries_created)
        ended = {tuple(key): count for key, count in counts.deliveries_ended.items()}
        help = "Deliveries that this process ended, by kind of address, state and reason."
        yield _counters("deliveries_ended", help, ("kind", "state", "reason"), ended.items())
        help = "Attempts by kind of address and outcome."
        yield _counters("attempts", help, ("kind", "outcome"), counts.attempts.items())
        yield _histogram("attempt_duration_seconds", "Duration of attempts.", counts.attempt_durations)
        yield _histogram("delivery_latency_seconds", "Time from accepting an event to delivering it.", counts.latencies)
        yield _counter("leases_lost", "Attempts whose lease was lost.", counts.leases_lost)
        yield _counter("leases_reclaimed", "Leases freed after the death of a process.", counts.leases_reclaimed)

    def _queues(self) -> Iterator[Family]:
        """The busiest queues only: a label for each of 10,000 contracts would make every scrape slow."""
        busiest = self._metrics.counts.busiest(QUEUES_SHOWN)
        attempts = {(queue.name,): queue.attempts for queue in busiest}
        help = f"Attempts of the {QUEUES_SHOWN} busiest queues; a queue is a contract or a direct address."
        yield _counters("queue_attempts", help, ("queue",), attempts.items())
        ended = {(queue.name, state): count for queue in busiest for state, count in queue.ended.items()}
        help = f"Deliveries that ended, of the {QUEUES_SHOWN} busiest queues."
        yield _counters("queue_ended", help, ("queue", "state"), ended.items())
        if (pending := self._metrics.pending_by_queue) is not None:
            help = f"Deliveries that are not settled, of the {QUEUES_SHOWN} queues that have the most."
            yield _gauges("queue_pending", help, ("queue",), [((name,), count) for name, count in pending.items()])
        dead = {(name,): count for name, count in self._metrics.dead_by_queue.items()}
        help = f"Dead letters of the {QUEUES_SHOWN} queues that have the most."
        yield _gauges("queue_dead_letters", help, ("queue",), dead.items())

    def _readers(self) -> Iterator[Family]:
        """Readers of streams; a sink's reader is named sink:NAME."""
        readers, label = self._metrics.readers, ("reader",)
        behind = [((reader.name,), reader.lag_events) for reader in readers]
        yield _gauges("reader_lag_events", "Events that a reader has not read.", label, behind)
        since = [((reader.name,), reader.lag_seconds) for reader in readers]
        yield _gauges("reader_lag_seconds", "Age of the oldest event that a reader has not read.", label, since)
        failing = [((reader.name,), reader.failing_streams) for reader in readers]
        yield _gauges("reader_failing_streams", "Streams in which a reader failed last time.", label, failing)
        active = [(reader.name, reader.activity) for reader in readers if reader.activity is not None]
        published = [((name,), activity.published) for name, activity in active]
        yield _counters("reader_published", "Events that this process published.", label, published)
        failures = [((name,), activity.failures) for name, activity in active]
        yield _counters("reader_failures", "Publishing that failed and is retried.", label, failures)
        skipped = [((name,), activity.skipped) for name, activity in active]
        yield _counters("reader_skipped", "Events that a sink refused for good.", label, skipped)
        yield _publish_latency(active)


def _publish_latency(active: Iterable[tuple[str, SinkActivity]]) -> HistogramMetricFamily:
    help = "Time from accepting an event to the sink's confirmation."
    family = HistogramMetricFamily("holdfast_reader_publish_latency_seconds", help, labels=["reader"])
    for name, activity in active:
        bounds = [str(bound / 1000) for bound in activity.latency_bounds_ms]
        family.add_metric([name], _cumulative(bounds, activity.latency_counts), activity.latency_sum_ms / 1000)
    return family


def _gauge(name: str, help: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"holdfast_{name}", help, value=value)


def _counter(name: str, help: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"holdfast_{name}", help, value=value)


def _gauges(name: str, help: str, labels: Sequence[str], values: Values) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"holdfast_{name}", help, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def _counters(name: str, help: str, labels: Sequence[str], values: Values) -> CounterMetricFamily:
    family = CounterMetricFamily(f"holdfast_{name}", help, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def _histogram(name: str, help: str, by_kind: Mapping[str, Histogram]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"holdfast_{name}", help, labels=["kind"])
    for kind, histogram in by_kind.items():
        family.add_metric([kind], _cumulative(map(str, BOUNDS_S), histogram.buckets), histogram.total_ms / 1000)
    return family


def _cumulative(bounds: Iterable[str], counts: Iterable[int]) -> list[tuple[str, float]]:
    """Buckets as Prometheus counts them: each contains the ones before it."""
    return [(bound, float(total)) for bound, total in zip((*bounds, "+Inf"), accumulate(counts), strict=True)]

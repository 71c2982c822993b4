"""The kinds of sink, by the scheme of their URL. Each is imported only when a sink of its kind is made."""

from __future__ import annotations

from importlib import import_module

from holdfast.domain.errors import BadConfig
from holdfast.streams.sinks.sink import Sink, SinkConfig

SINKS: dict[str, str] = {
    "file": "holdfast.streams.sinks.file:FileSink",
    "http": "holdfast.streams.sinks.http:HttpSink",
    "https": "holdfast.streams.sinks.http:HttpSink",
    "kafka": "holdfast.streams.sinks.kafka:KafkaSink",
    "nats": "holdfast.streams.sinks.nats:NatsSink",
    "redis": "holdfast.streams.sinks.redis:RedisSink",
    "rediss": "holdfast.streams.sinks.redis:RedisSink",
    "tls": "holdfast.streams.sinks.nats:NatsSink",
}
"""URL scheme -> "module:class". The class takes a SinkConfig and raises BadConfig for options it does not know."""


def make_sink(config: SinkConfig) -> Sink:
    """The sink of one entry of the configuration, not connected yet. Raises BadConfig."""
    scheme = config.url.partition(":")[0].lower()
    if scheme not in SINKS:
        known = ", ".join(f"{name}://" for name in sorted(SINKS)) or "none"
        raise BadConfig(f"sink {config.name}: no kind of sink has URLs that begin with {scheme!r}; known are {known}")
    module, _, name = SINKS[scheme].partition(":")
    sink: Sink = getattr(import_module(module), name)(config)
    return sink

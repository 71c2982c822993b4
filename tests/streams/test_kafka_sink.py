"""The Kafka sink and the sink suite, against the mock cluster of librdkafka in another process.

It shows that the protocol is used correctly, not that a broker keeps what it confirmed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from holdfast.domain.errors import BadConfig
from holdfast.streams.sinks.kafka import KafkaSink, escape_topic
from holdfast.streams.sinks.sink import PublishFailed, SinkConfig
from holdfast.testing.sink_suite import NAMES, SinkFeature, SinkSuite, make_events

HOLDER = """
import json, sys
from confluent_kafka import Producer
p = Producer({"bootstrap.servers": "x", "test.mock.num.brokers": 1, "log_level": 0})
print(json.dumps([f"{b.host}:{b.port}" for b in p.list_topics(timeout=30).brokers.values()]), flush=True)
sys.stdin.read()
"""
TOPIC = "runs"


class KafkaTarget:
    """An outage is a server that is stopped: the mock cluster holds everything in memory."""

    features = frozenset({SinkFeature.OUTAGE, SinkFeature.DURABLE})
    secret = "canaryKAFKA"

    def __init__(self) -> None:
        self.holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.holder.stdout is not None
        self.brokers = ",".join(json.loads(self.holder.stdout.readline()))
        self._reader = Consumer(
            {"bootstrap.servers": self.brokers, "group.id": "test", "log_level": 0, "fetch.wait.max.ms": 10}
        )
        self._ends: dict[int, int] = {}
        self._bodies: dict[int, list[bytes]] = {}

    def sink(self) -> KafkaSink:
        return KafkaSink(
            SinkConfig(
                "log", f"kafka://{self.brokers}?client.id=canaryKAFKA", "*", {"topic": TOPIC, "timeout_seconds": 3}
            )
        )

    async def stored(self, stream: str) -> list[bytes]:
        return [body for body in self.bodies() if _is(body, stream, replay=False)]

    async def replayed(self, stream: str) -> list[bytes]:
        return [body for body in self.bodies() if _is(body, stream, replay=True)]

    def bodies(self) -> list[bytes]:
        """All stored messages, partition by partition. They are read again only if there are more."""
        found = self._reader.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
        places = [TopicPartition(TOPIC, number, 0) for number in found]
        ends = {place.partition: self._reader.get_watermark_offsets(place, timeout=30)[1] for place in places}
        if ends != self._ends:
            self._ends, self._bodies = ends, {number: [] for number in found}
            self._reader.assign(places)
            deadline = time.monotonic() + 60
            while any(len(self._bodies[number]) < end for number, end in ends.items()):
                assert time.monotonic() < deadline
                message = self._reader.poll(1)
                if message is not None and not message.error():
                    self._bodies[message.partition() or 0].append(message.value() or b"")
            self._reader.unassign()
        return [body for bodies in self._bodies.values() for body in bodies]

    async def kill(self) -> None:
        self.holder.send_signal(signal.SIGSTOP)
        # Its threads may run on for a moment after the signal.
        os.waitpid(self.holder.pid, os.WUNTRACED)  # noqa: ASYNC222

    async def start(self) -> None:
        self.holder.send_signal(signal.SIGCONT)

    async def close(self) -> None:
        self.holder.send_signal(signal.SIGCONT)
        self._reader.close()
        self.holder.kill()
        self.holder.communicate()


def _is(body: bytes, stream: str, replay: bool) -> bool:
    event = json.loads(body)
    return event["stream"] == stream and event.get("replay", False) is replay


@pytest.fixture
def target() -> Iterator[KafkaTarget]:
    target = KafkaTarget()
    yield target
    if target.holder.poll() is None:
        target.holder.kill()
        target.holder.communicate()


class TestKafkaSink(SinkSuite):
    async def test_an_event_above_the_limit_of_the_client_is_refused_for_good(
        self, sink: KafkaSink, target: KafkaTarget
    ) -> None:
        events = [*make_events("run:1", 1, 2), *make_events("run:1", 3, 3, size=2_000_000)]
        with pytest.raises(PublishFailed, match=r"message\.max\.bytes") as failed:
            await sink.publish("run:1", events)
        assert (failed.value.published, failed.value.poison) == (2, True)
        assert len(await target.stored("run:1")) == 2


def test_topics_of_different_streams_differ() -> None:
    assert len({escape_topic(name) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("kafka://h:1", {"topic": "a b"}, "letters, digits"),
        ("kafka://", {}, "kafka://HOST"),
        ("kafka://h", {"x": 1}, "no"),
    ],
)
def test_wrong_options_are_refused(url: str, options: dict[str, str | int], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        KafkaSink(SinkConfig("log", url, "*", {**options}))

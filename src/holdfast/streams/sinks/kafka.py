"""Kafka, experimental: an idempotent producer, and the stream's name as key, so that a stream stays in one partition.

The producer's own numbering keeps a batch from being stored twice while this process runs. After a restart an event may
be stored again; its id is in the header `event-id`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from holdfast.domain.errors import BadConfig
from holdfast.domain.event import Event
from holdfast.ports import in_thread
from holdfast.streams.sinks.settings import Settings, event_body
from holdfast.streams.sinks.sink import SinkConfig

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

TOPIC_MAX = 249
POLL_S = 0.02
PENDING = "pending"

_TOPIC, _PLAIN = re.compile(r"[A-Za-z0-9._-]+"), re.compile(r"[A-Za-z0-9.-]")


class KafkaSink:
    """Publishes to `kafka://host:port[,host:port]`. Parameters of the URL are settings of librdkafka."""

    def __init__(self, config: SinkConfig) -> None:
        self._settings = settings = Settings(config)
        settings.needs("confluent_kafka", "kafka")
        self._topic = settings.template("topic", "holdfast", escape_topic)
        self._answer_s = settings.seconds("timeout_seconds", 10.0)
        settings.end()
        self._brokers, self._extra = _read_url(config.url)
        if not _TOPIC.fullmatch(self._topic("x")):
            raise BadConfig("topic may hold letters, digits and . _ - and {stream}")
        self._producer: Producer | None = None

    @property
    def name(self) -> str:
        return self._settings.config.name

    async def open(self) -> None:
        if self._producer is not None:
            return
        from confluent_kafka import KafkaException, Producer

        parts = urlsplit(self._settings.config.url)
        account = {"sasl.username": parts.username, "sasl.password": parts.password}
        try:
            producer = Producer(
                {
                    "bootstrap.servers": self._brokers,
                    "enable.idempotence": True,
                    "enable.gapless.guarantee": True,
                    "linger.ms": 2,
                    "message.timeout.ms": int(self._answer_s * 1000),
                    "log_level": 0,
                    **{name: value for name, value in account.items() if value},
                    **self._extra,
                }
            )
            await in_thread("files", lambda: producer.list_topics(timeout=self._answer_s))
        except (KafkaException, ValueError) as error:
            raise self._settings.failed(error) from None
        self._producer = producer

    async def publish(self, stream: str, events: Sequence[Event], replay: bool = False) -> None:
        if self._producer is None:
            await self.open()
        producer = self._producer
        assert producer is not None
        topic = self._topic(stream)
        if len(topic) > TOPIC_MAX:
            raise self._settings.failed(f"the topic of stream {stream!r} is longer than {TOPIC_MAX}", poison=True)
        answers: list[str | None] = [PENDING] * len(events)
        sent, too_large = 0, ""
        for event in events:
            too_large = await self._produce(producer, topic, event, replay, partial(_note, answers, sent))
            if too_large:
                break
            sent += 1
        await self._wait(producer, answers, sent)
        for at, answer in enumerate(answers[:sent]):
            if answer is not None:
                # The producer stops at a lost message: to go on could store a later event before an earlier one.
                await self.close()
                raise self._settings.failed(answer, at)
        if too_large:
            raise self._settings.failed(too_large, sent, poison=True)

    async def _produce(
        self,
        producer: Producer,
        topic: str,
        event: Event,
        replay: bool,
        note: Callable[[KafkaError | None, Message], None],
    ) -> str:
        """Queue one event. Returns why it is too large, if it is."""
        from confluent_kafka import KafkaException

        headers: list[tuple[str, str | bytes | None]] = [
            ("event-id", event.id),
            ("replay", "true" if replay else "false"),
        ]
        body, key = event_body(event, replay), event.stream.encode()
        while True:
            try:
                producer.produce(topic, body, key=key, headers=headers, on_delivery=note)
                return ""
            except BufferError:  # the queue is full
                producer.poll(0)
                await asyncio.sleep(POLL_S)
            except KafkaException as error:
                if error.args[0].name() == "MSG_SIZE_TOO_LARGE":
                    return f"event {event.id} is larger than message.max.bytes"
                await self.close()
                raise self._settings.failed(error) from None

    async def _wait(self, producer: Producer, answers: list[str | None], sent: int) -> None:
        """Wait for all answers. The client itself gives up on a message after its timeout."""
        pause_s = 0.0
        while PENDING in answers[:sent]:
            if producer.poll(0) == 0:
                await asyncio.sleep(pause_s)
                pause_s = min(POLL_S, pause_s + 0.001)

    async def durability(self) -> str:
        return "Every in-sync replica has an event before it is confirmed (acks=all; see min.insync.replicas)."

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            await in_thread("files", lambda: producer.flush(1.0))


def _note(answers: list[str | None], at: int, error: KafkaError | None, message: Message) -> None:
    answers[at] = None if error is None else error.str()


def escape_topic(stream: str) -> str:
    """A stream's name as part of a topic. Names of different streams stay different.

    >>> escape_topic("run:1"), escape_topic("run_3a1")
    ('run_3a1', 'run_5f3a1')
    """
    return "".join(
        char if _PLAIN.fullmatch(char) else "".join(f"_{byte:02x}" for byte in char.encode()) for char in stream
    )


def _read_url(url: str) -> tuple[str, dict[str, str]]:
    """The brokers, and settings of librdkafka from the query, such as `security.protocol=SASL_SSL`."""
    parts = urlsplit(url)
    brokers = parts.netloc.rpartition("@")[2]
    if not brokers:
        raise BadConfig("the URL of a Kafka sink is kafka://HOST:PORT, several separated by commas")
    return brokers, dict(parse_qsl(parts.query))

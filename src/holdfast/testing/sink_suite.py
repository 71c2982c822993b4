"""The behavioral suite of a sink. It needs pytest and pytest-asyncio.

A test module defines one fixture that describes the sink and how to read its destination, and subclasses the suite:

    @pytest.fixture
    def target(tmp_path) -> SinkTarget:
        return MyTarget(tmp_path)

    class TestMySink(SinkSuite):
        pass

A target declares its `features`; a declared feature that fails is a failure, others are not tested.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Protocol
from zlib import crc32

import pytest

from holdfast.domain.event import Event
from holdfast.domain.json_value import JsonObject
from holdfast.streams.sinks.sink import PublishFailed, Sink

NAMES = (
    "run:1", "run:10", "run.1", "run 1", "run/1", "RUN:1", "run:*", "run:>", "run%3A1", "run_3a1", "$JS.API", "..",
    "día-\u96ea", "{stream}", "a" * 255,
)  # fmt: skip
"""Names of streams that a destination could confuse or refuse."""
RECOVERY_S = 60.0


class SinkFeature(StrEnum):
    """What a sink may or may not do."""

    DEDUPLICATES = "deduplicates"  # an event that is sent again is stored once
    OUTAGE = "outage"  # the suite can stop and start the server
    DURABLE = "durable"  # confirmed events survive kill -9 of the server


class SinkTarget(Protocol):
    """Provided by the author of a sink: how to create it, and how to read its destination."""

    features: frozenset[SinkFeature]
    secret: str
    """A password or token in the sink's configuration. No error may show it."""

    def sink(self) -> Sink:
        """A new sink for the same destination, not opened."""

    async def stored(self, stream: str) -> list[bytes]:
        """The stored bodies of one stream's events in the order of the destination, without replayed events."""

    async def replayed(self, stream: str) -> list[bytes]:
        """The stored bodies of one stream's replayed events."""

    async def kill(self) -> None:
        """End the server as kill -9 does."""

    async def start(self) -> None:
        """Start the server again, with the same data."""

    async def close(self) -> None:
        """Stop everything."""


def make_events(stream: str, first: int, last: int, size: int = 10) -> list[Event]:
    """Events of a stream, as the store returns them."""
    payload = json.dumps({"text": "x" * size})
    return [
        Event(seq, f"evt_{crc32(stream.encode()):x}_{seq}", stream, seq, "app", "run.step", "2026-01-31T12:00:00Z",
              1_700_000_000_000 + seq, '{"n":1}', payload)
        for seq in range(first, last + 1)
    ]  # fmt: skip


def read_seqs(bodies: Sequence[bytes]) -> list[int]:
    return [json.loads(body)["seq"] for body in bodies]


class SinkSuite:
    """Every promise of a sink."""

    @pytest.fixture
    async def running(self, target: SinkTarget) -> AsyncIterator[SinkTarget]:
        await target.start()
        yield target
        await target.close()

    @pytest.fixture
    async def sink(self, running: SinkTarget) -> AsyncIterator[Sink]:
        sink = running.sink()
        await sink.open()
        yield sink
        await sink.close()

    async def test_events_are_stored_unchanged_and_in_order(self, sink: Sink, target: SinkTarget) -> None:
        events = make_events("run:1", 1, 150)
        await sink.publish("run:1", events[:100])
        await sink.publish("run:1", events[100:])
        assert await target.stored("run:1") == [event.body() for event in events]

    async def test_names_of_streams_are_never_confused(self, sink: Sink, target: SinkTarget) -> None:
        for name in NAMES:
            await sink.publish(name, make_events(name, 1, 3))
        for name in NAMES:
            assert await target.stored(name) == [event.body() for event in make_events(name, 1, 3)], name

    async def test_streams_can_be_published_at_the_same_time(self, sink: Sink, target: SinkTarget) -> None:
        names = [f"run:{number}" for number in range(20)]
        await asyncio.gather(*(sink.publish(name, make_events(name, 1, 50)) for name in names))
        assert [read_seqs(await target.stored(name)) for name in names] == [list(range(1, 51))] * len(names)

    async def test_an_event_that_is_sent_again_is_stored_once(self, sink: Sink, target: SinkTarget) -> None:
        _require(target, SinkFeature.DEDUPLICATES)
        events = make_events("run:1", 1, 30)
        await sink.publish("run:1", events[:20])
        await sink.publish("run:1", events[:20])
        await sink.publish("run:1", events[10:])
        other = target.sink()  # after a restart of the daemon
        await other.open()
        await other.publish("run:1", events[25:])
        await other.close()
        assert read_seqs(await target.stored("run:1")) == list(range(1, 31))

    async def test_replayed_events_are_marked_and_do_not_disturb_the_stream(
        self, sink: Sink, target: SinkTarget
    ) -> None:
        events = make_events("run:1", 1, 6)
        await sink.publish("run:1", events[:4])
        await sink.publish("run:1", events[1:3], replay=True)
        await sink.publish("run:1", events[4:])
        assert read_seqs(await target.stored("run:1")) == [1, 2, 3, 4, 5, 6]
        repeated: list[JsonObject] = [json.loads(body) for body in await target.replayed("run:1")]
        assert [(body["seq"], body["id"], body["replay"]) for body in repeated] == [
            (event.seq, event.id, True) for event in events[1:3]
        ]

    async def test_a_large_event_is_stored_or_refused_for_good(self, sink: Sink, target: SinkTarget) -> None:
        small, large = make_events("run:1", 1, 2), make_events("run:1", 3, 3, size=1_000_000)
        try:
            await sink.publish("run:1", [*small, *large])
        except PublishFailed as failed:
            if (failed.published, failed.poison) != (2, True):
                raise
            large = []
        assert await target.stored("run:1") == [event.body() for event in [*small, *large]]

    async def test_the_durability_is_one_sentence(self, sink: Sink, target: SinkTarget) -> None:
        sentence = await sink.durability()
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert target.secret not in sentence

    async def test_closing_twice_is_harmless_and_a_closed_sink_opens_again(
        self, sink: Sink, target: SinkTarget
    ) -> None:
        await sink.close()
        await sink.close()
        await sink.open()
        await sink.publish("run:1", make_events("run:1", 1, 1))
        assert read_seqs(await target.stored("run:1")) == [1]

    async def test_a_server_that_is_down_is_an_error_without_secrets(self, running: SinkTarget) -> None:
        _require(running, SinkFeature.OUTAGE)
        await running.kill()
        sink = running.sink()
        with pytest.raises(PublishFailed) as failed:
            await _open_and_publish(sink)
        await sink.close()
        assert running.secret not in str(failed.value)
        assert failed.value.published == 0
        assert not failed.value.poison

    async def test_publishing_resumes_when_the_server_is_back(self, sink: Sink, target: SinkTarget) -> None:
        _require(target, SinkFeature.OUTAGE)
        events = make_events("run:1", 1, 40)
        await sink.publish("run:1", events[:20])
        await target.kill()
        with pytest.raises(PublishFailed) as failed:
            await sink.publish("run:1", events[20:30])
        assert failed.value.published == 0
        await target.start()
        await publish_until_confirmed(sink, "run:1", events[20:])
        stored = read_seqs(await target.stored("run:1"))
        if SinkFeature.DURABLE in target.features:
            assert list(dict.fromkeys(stored)) == list(range(1, 41))
        if SinkFeature.DEDUPLICATES in target.features:
            assert len(stored) == len(set(stored))

    async def test_no_confirmed_event_is_lost_when_the_server_is_killed_while_publishing(
        self, sink: Sink, target: SinkTarget
    ) -> None:
        _require(target, SinkFeature.OUTAGE)
        _require(target, SinkFeature.DURABLE)
        names = [f"run:{number}" for number in range(4)]
        sending = [asyncio.ensure_future(_publish_slowly(sink, name, 400)) for name in names]
        for _ in range(3):
            await asyncio.sleep(0.1)  # any moment will do
            await target.kill()
            await target.start()
        await asyncio.gather(*sending)
        for name in names:
            stored = read_seqs(await target.stored(name))
            if SinkFeature.DEDUPLICATES in target.features:
                assert stored == list(range(1, 401))
            assert list(dict.fromkeys(stored)) == list(range(1, 401))


async def publish_until_confirmed(sink: Sink, stream: str, events: Sequence[Event]) -> None:
    """Repeat a batch from its first unconfirmed event, as the publisher does."""
    rest = list(events)
    async with asyncio.timeout(RECOVERY_S):
        while rest:
            try:
                await sink.publish(stream, rest)
                return
            except PublishFailed as failed:
                if failed.poison:
                    raise
                rest = rest[failed.published :]
                await asyncio.sleep(0.02)


async def _publish_slowly(sink: Sink, stream: str, count: int) -> None:
    for first in range(1, count + 1, 10):
        await publish_until_confirmed(sink, stream, make_events(stream, first, first + 9))
        await asyncio.sleep(0.005)


async def _open_and_publish(sink: Sink) -> None:
    await sink.open()
    await sink.publish("run:1", make_events("run:1", 1, 1))


def _require(target: SinkTarget, feature: SinkFeature) -> None:
    if feature not in target.features:
        pytest.skip(f"the sink does not declare {feature}")

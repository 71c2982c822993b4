"""The Redis sink keeps every promise of the sink suite, against a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import redis.asyncio

from holdfast.domain.errors import BadConfig
from holdfast.proof.streams.redis_server import RedisServer
from holdfast.streams.sinks.redis import RedisSink
from holdfast.streams.sinks.sink import PublishFailed, SinkConfig
from holdfast.testing.sink_suite import SinkFeature, SinkSuite, make_events, read_seqs

PASSWORD = "canaryREDIS"


class RedisTarget:
    features = frozenset(SinkFeature)
    secret = PASSWORD

    def __init__(self, folder: Path) -> None:
        self.server = RedisServer(folder, password=PASSWORD)

    def config(self, **options: str | int) -> SinkConfig:
        return SinkConfig("cache", self.server.url, "run:*", {"key": "runs:{stream}", **options})

    def sink(self) -> RedisSink:
        return RedisSink(self.config())

    async def stored(self, stream: str) -> list[bytes]:
        return await self.entries(f"runs:{stream}")

    async def replayed(self, stream: str) -> list[bytes]:
        return await self.entries(f"runs:{stream}:replay")

    async def entries(self, key: str) -> list[bytes]:
        async with self.client() as client:
            return [fields[b"data"] for _, fields in await client.xrange(key)]

    def client(self) -> redis.asyncio.Redis:
        return redis.asyncio.Redis.from_url(self.server.url)

    async def kill(self) -> None:
        self.server.kill()

    async def start(self) -> None:
        self.server.start()

    async def close(self) -> None:
        self.server.kill()


@pytest.fixture
def target(tmp_path: Path) -> RedisTarget:
    return RedisTarget(tmp_path)


class TestRedisSink(SinkSuite):
    async def test_an_entry_has_the_id_of_the_seq_and_the_event(self, sink: RedisSink, target: RedisTarget) -> None:
        (event,) = make_events("run:1", 7, 7)
        await sink.publish("run:1", [event])
        async with target.client() as client:
            ((id, fields),) = await client.xrange("runs:run:1")
        assert id == b"7-0"
        assert fields == {b"id": event.id.encode(), b"type": b"run.step", b"data": event.body()}

    async def test_a_batch_that_was_trimmed_can_be_sent_again(self, sink: RedisSink, target: RedisTarget) -> None:
        small = RedisSink(target.config(max_length=1))
        events = make_events("run:1", 1, 500)
        await small.publish("run:1", events)
        await small.publish("run:1", events)
        await small.close()
        stored = read_seqs(await target.stored("run:1"))
        assert len(stored) < 500
        assert stored == list(range(stored[0], 501))

    async def test_events_that_the_server_lost_are_reported(
        self, sink: RedisSink, target: RedisTarget, caplog: pytest.LogCaptureFixture
    ) -> None:
        await sink.publish("run:1", make_events("run:1", 1, 9))
        async with target.client() as client:
            await client.xdel("runs:run:1", "8-0", "9-0")
        await sink.close()
        await sink.publish("run:1", make_events("run:1", 10, 11))
        await sink.publish("run:1", make_events("run:1", 12, 12))
        assert caplog.text.count("has lost the confirmed events 8 to 9 of stream run:1") == 1
        assert "lost" not in caplog.text.replace("has lost the confirmed events 8 to 9", "")

    async def test_entries_of_another_program_are_an_error_and_not_taken_for_ours(
        self, sink: RedisSink, target: RedisTarget
    ) -> None:
        async with target.client() as client:
            await client.xadd("runs:run:1", {"a": "b"})
        with pytest.raises(PublishFailed, match="holds another entry") as failed:
            await sink.publish("run:1", make_events("run:1", 1, 2))
        assert (failed.value.published, failed.value.poison) == (0, False)

    async def test_a_stream_that_began_again_is_an_error_and_not_dropped(
        self, sink: RedisSink, target: RedisTarget
    ) -> None:
        await sink.publish("run:1", make_events("run:1", 1, 5))
        other = make_events("run:1", 1, 2)
        for event in other:
            event.id += "_other"
        with pytest.raises(PublishFailed, match="holds another entry"):
            await sink.publish("run:1", other)

    async def test_a_server_without_memory_stores_no_later_event_before_an_earlier_one(
        self, sink: RedisSink, target: RedisTarget
    ) -> None:
        async with target.client() as client:
            await client.config_set("maxmemory", "1")
            with pytest.raises(PublishFailed, match="memory"):
                await sink.publish("run:1", make_events("run:1", 1, 5))
            await client.config_set("maxmemory", "0")
        await sink.publish("run:1", make_events("run:1", 1, 5))
        assert read_seqs(await target.stored("run:1")) == [1, 2, 3, 4, 5]

    async def test_a_wrong_password_is_an_error_that_does_not_show_it(self, running: RedisTarget) -> None:
        url = running.server.url.replace(PASSWORD, "canaryWRONG")
        sink = RedisSink(SinkConfig("cache", url, "*", {}))
        with pytest.raises(PublishFailed) as failed:
            await sink.open()
        assert "canary" not in str(failed.value)

    async def test_pubsub_sends_each_event_to_the_channel_of_its_stream(self, running: RedisTarget) -> None:
        sink = RedisSink(running.config(mode="pubsub"))
        events = make_events("run:1", 1, 3)
        async with running.client() as client, client.pubsub() as subscriber:
            await subscriber.subscribe("runs:run:1")
            assert await subscriber.get_message(timeout=60) is not None
            await sink.publish("run:1", events)
            received = [await subscriber.get_message(timeout=60) for _ in events]
        assert "Pub/Sub stores nothing" in await sink.durability()
        await sink.close()
        assert [message["data"] for message in received if message] == [event.body() for event in events]

    @pytest.mark.parametrize(("fsync", "words"), [("always", "before it confirms"), ("everysec", "every second")])
    async def test_the_durability_follows_the_settings_of_the_server(
        self, sink: RedisSink, target: RedisTarget, fsync: str, words: str
    ) -> None:
        async with target.client() as client:
            await client.config_set("appendfsync", fsync)
            assert words in await sink.durability()
            await client.config_set("appendonly", "no")
            assert "a crash loses confirmed events" in await sink.durability()

    async def test_a_server_that_does_not_answer_is_an_error_and_loses_nothing(self, running: RedisTarget) -> None:
        sink = RedisSink(running.config(timeout_seconds=1))
        await sink.publish("run:1", make_events("run:1", 1, 5))
        async with running.client() as client:
            await client.client_pause(3000)
            with pytest.raises(PublishFailed):
                await sink.publish("run:1", make_events("run:1", 6, 10))
            await client.client_unpause()
        while True:
            try:
                await sink.publish("run:1", make_events("run:1", 6, 12))
                break
            except PublishFailed:
                await asyncio.sleep(0.05)
        await sink.close()
        assert read_seqs(await running.stored("run:1")) == list(range(1, 13))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "runs:{session}"}, "the only place to fill in is {stream}"),
        ({"key": ""}, "not valid"),
        ({"mode": "list"}, "one of stream, pubsub"),
        ({"max_length": 0}, "whole number"),
        ({"subject": "a"}, "no option subject"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str | int], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        RedisSink(SinkConfig("cache", "redis://127.0.0.1/0", "*", {**options}))


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.streams.sinks.settings.find_spec", lambda name: None)
    with pytest.raises(BadConfig, match=r"pip install '\.\[redis\]'"):
        RedisSink(SinkConfig("cache", "redis://127.0.0.1/0", "*", {}))

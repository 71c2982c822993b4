"""The NATS sink keeps every promise of the sink suite, against a real JetStream server."""

from __future__ import annotations

import json
from pathlib import Path

import nats
import pytest
from nats.js.api import StreamConfig

from holdfast.domain.errors import BadConfig
from holdfast.proof.streams.nats_server import NatsServer
from holdfast.streams.sinks.nats import NatsSink
from holdfast.streams.sinks.sink import PublishFailed, SinkConfig
from holdfast.testing.sink_suite import SinkFeature, SinkSuite, make_events, read_seqs

PASSWORD = "canaryNATS"
STREAM = "RUNS"


class NatsTarget:
    features = frozenset(SinkFeature)
    secret = PASSWORD

    def __init__(self, folder: Path, atomic: bool) -> None:
        self.server = NatsServer(folder, sync="always", password=PASSWORD)
        self.atomic = atomic

    def config(self, **options: str | int | bool) -> SinkConfig:
        given = {"subject": "runs.{stream}", "stream": STREAM, "timeout_seconds": 2, **options}
        return SinkConfig("bus", self.server.url, "run:*", given)

    def sink(self) -> NatsSink:
        return NatsSink(self.config(create=self.atomic))

    async def connect(self) -> nats.NATS:
        return await nats.connect(self.server.url, error_cb=_ignore)

    async def bodies(self) -> list[tuple[str, bytes]]:
        """All stored messages, in the order of the JetStream stream."""
        client = await self.connect()
        try:
            jetstream = client.jetstream()
            info = await jetstream.stream_info(STREAM)
            if not info.state.messages:
                return []
            subscription = await jetstream.subscribe("runs.*", ordered_consumer=True)
            found = []
            for _ in range(info.state.messages):
                message = await subscription.next_msg(timeout=60)
                found.append((message.subject, message.data))
            return found
        finally:
            await client.close()

    async def stored(self, stream: str) -> list[bytes]:
        return [body for body in await self._of(stream) if not json.loads(body).get("replay")]

    async def replayed(self, stream: str) -> list[bytes]:
        return [body for body in await self._of(stream) if json.loads(body).get("replay")]

    async def _of(self, stream: str) -> list[bytes]:
        found = [(subject, body) for subject, body in await self.bodies() if json.loads(body)["stream"] == stream]
        assert len({subject for subject, _ in found}) <= 1
        return [body for _, body in found]

    async def kill(self) -> None:
        self.server.kill()

    async def start(self) -> None:
        self.server.start()
        if not self.atomic:
            client = await self.connect()
            await client.jetstream().add_stream(StreamConfig(name=STREAM, subjects=["runs.*"]))
            await client.close()

    async def close(self) -> None:
        self.server.kill()


async def _ignore(error: Exception) -> None:
    pass


@pytest.fixture(params=["atomic", "pipelined"])
def target(tmp_path: Path, request: pytest.FixtureRequest) -> NatsTarget:
    return NatsTarget(tmp_path, request.param == "atomic")


class TestNatsSink(SinkSuite):
    async def test_streams_have_subjects_of_their_own(self, sink: NatsSink, target: NatsTarget) -> None:
        for stream in ("run:1", "a.b c"):
            await sink.publish(stream, make_events(stream, 1, 1))
        assert [subject for subject, _ in await target.bodies()] == ["runs.run:1", "runs.a%2Eb%20c"]

    async def test_an_event_above_the_limit_of_the_server_is_refused_for_good(
        self, running: NatsTarget, tmp_path: Path
    ) -> None:
        small = NatsServer(tmp_path / "small", max_payload=4096)
        small.start()
        sink = NatsSink(SinkConfig("bus", small.url, "*", {"subject": "runs.{stream}"}))
        events = [*make_events("run:1", 1, 3), *make_events("run:1", 4, 4, size=5000)]
        try:
            with pytest.raises(PublishFailed, match="4,096 bytes") as failed:
                await sink.publish("run:1", events)
        finally:
            await sink.close()
            small.kill()
        assert (failed.value.published, failed.value.poison) == (3, True)

    async def test_the_durability_names_copies_window_and_sync(self, running: NatsTarget) -> None:
        sink = NatsSink(running.config())
        assert "file storage, 1 copy" in await sink.durability()
        assert "every 120 s unless" in await sink.durability()
        await sink.close()
        sink = NatsSink(running.config(monitor=running.server.monitor))
        assert "synced before each acknowledgement" in await sink.durability()
        await sink.close()

    async def test_resending_a_large_part_of_a_batch_keeps_the_order(self, sink: NatsSink, target: NatsTarget) -> None:
        events = make_events("run:1", 1, 700)
        await sink.publish("run:1", events[:650])
        await sink.publish("run:1", events)
        assert read_seqs(await target.stored("run:1")) == list(range(1, 701))

    async def test_a_jetstream_stream_that_was_removed_is_created_again_if_it_may_be(
        self, sink: NatsSink, target: NatsTarget
    ) -> None:
        await sink.publish("run:1", make_events("run:1", 1, 3))
        client = await target.connect()
        await client.jetstream().delete_stream(STREAM)
        await client.close()
        with pytest.raises(PublishFailed):
            await sink.publish("run:1", make_events("run:1", 4, 6))
        if target.atomic:
            await sink.publish("run:1", make_events("run:1", 4, 6))
            assert read_seqs(await target.stored("run:1")) == [4, 5, 6]
        else:
            with pytest.raises(PublishFailed, match="no JetStream stream has the subject"):
                await sink.publish("run:1", make_events("run:1", 4, 6))

    async def test_a_missing_jetstream_stream_is_an_error_that_names_the_subject(self, running: NatsTarget) -> None:
        sink = NatsSink(running.config(subject="other.{stream}", create=False))
        with pytest.raises(PublishFailed, match=r"no JetStream stream has the subject other\.\*"):
            await sink.open()


@pytest.mark.parametrize(
    ("options", "words"),
    [({"subject": "runs.{run}"}, "only place"), ({"replicas": 9}, "whole number"), ({"key": "x"}, "no option key")],
)
def test_wrong_options_are_refused(options: dict[str, str | int], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        NatsSink(SinkConfig("bus", "nats://127.0.0.1", "*", {**options}))

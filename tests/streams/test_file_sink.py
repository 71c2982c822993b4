"""The file sink keeps every promise of the sink suite, and a file that a crash left behind is repaired."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.domain.errors import BadConfig
from holdfast.streams.sinks.file import FileSink, escape_name
from holdfast.streams.sinks.sink import PublishFailed, SinkConfig
from holdfast.testing.sink_suite import SinkFeature, SinkSuite, make_events, read_seqs


class FileTarget:
    features = frozenset({SinkFeature.DEDUPLICATES, SinkFeature.DURABLE})
    secret = "canaryFILE"

    def __init__(self, folder: Path, file: str) -> None:
        self.folder, self.file = folder / "runs", file

    def sink(self) -> FileSink:
        return FileSink(SinkConfig("log", f"file://{self.folder}", "*", {"file": self.file}))

    def path(self, stream: str) -> Path:
        return self.folder / self.file.replace("{stream}", escape_name(stream))

    def lines(self, stream: str) -> list[bytes]:
        path = self.path(stream)
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return [line for line in lines if json.loads(line)["stream"] == stream]

    async def stored(self, stream: str) -> list[bytes]:
        return [line for line in self.lines(stream) if b'"replay":true' not in line]

    async def replayed(self, stream: str) -> list[bytes]:
        return [line for line in self.lines(stream) if b'"replay":true' in line]

    async def kill(self) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass


@pytest.fixture(params=["{stream}.jsonl", "all/events.jsonl"])
def target(tmp_path: Path, request: pytest.FixtureRequest) -> FileTarget:
    return FileTarget(tmp_path, request.param)


class TestFileSink(SinkSuite):
    @pytest.mark.parametrize("left", [1, 20, -1])
    async def test_a_torn_last_line_is_repaired(self, sink: FileSink, target: FileTarget, left: int) -> None:
        await sink.publish("run:1", make_events("run:1", 1, 5))
        path = target.path("run:1")
        raw = path.read_bytes()
        start = raw[:-1].rindex(b"\n") + 1
        path.write_bytes(raw[: start + left] if left > 0 else raw[:left])
        other = target.sink()
        await other.publish("run:1", make_events("run:1", 3, 7))
        assert await target.stored("run:1") == [event.body() for event in make_events("run:1", 1, 7)]

    async def test_a_file_that_holds_nothing_but_a_torn_line_is_emptied(
        self, sink: FileSink, target: FileTarget
    ) -> None:
        path = target.path("run:1")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b'{"id":"evt')
        await sink.publish("run:1", make_events("run:1", 1, 2))
        assert read_seqs(await target.stored("run:1")) == [1, 2]

    async def test_files_can_be_read_by_their_owner_alone(self, sink: FileSink, target: FileTarget) -> None:
        await sink.publish("run:1", make_events("run:1", 1, 1))
        assert target.path("run:1").stat().st_mode & 0o777 == 0o600
        assert target.folder.stat().st_mode & 0o777 == 0o700

    async def test_a_stream_that_began_again_is_an_error_and_not_dropped(
        self, sink: FileSink, target: FileTarget
    ) -> None:
        await sink.publish("run:1", make_events("run:1", 1, 50))
        other = make_events("run:1", 1, 2)
        for event in other:
            event.id += "_other"
        with pytest.raises(PublishFailed, match="holds another event 1"):
            await sink.publish("run:1", other)
        await sink.publish("run:1", make_events("run:1", 51, 51))

    async def test_lines_of_other_programs_are_left_alone(self, sink: FileSink, target: FileTarget) -> None:
        await sink.publish("run:1", make_events("run:1", 1, 2))
        with target.path("run:1").open("ab") as file:
            file.write(b'not json\n[1]\n{"seq":"x"}\n')
        other = target.sink()
        await other.publish("run:1", make_events("run:1", 1, 3))
        assert target.path("run:1").read_bytes().count(b"\n") == 6

    async def test_a_full_disk_leaves_the_file_as_it_was(
        self, sink: FileSink, target: FileTarget, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await sink.publish("run:1", make_events("run:1", 1, 2))
        write = os.write

        def fail(descriptor: int, data: memoryview) -> int:
            if len(data) < 100:
                raise OSError(28, "No space left on device")
            return write(descriptor, data[: len(data) // 2])

        monkeypatch.setattr(os, "write", fail)
        with pytest.raises(PublishFailed, match="No space left") as failed:
            await sink.publish("run:1", make_events("run:1", 3, 9))
        monkeypatch.undo()
        assert failed.value.published == 0
        assert read_seqs(await target.stored("run:1")) == [1, 2]
        await sink.publish("run:1", make_events("run:1", 3, 9))
        assert read_seqs(await target.stored("run:1")) == list(range(1, 10))


WRITER = """
import asyncio, sys
from holdfast.streams.sinks.file import FileSink
from holdfast.streams.sinks.sink import SinkConfig
from holdfast.testing.sink_suite import make_events

async def main():
    sink = FileSink(SinkConfig("log", sys.argv[1], "*", {"file": sys.argv[2]}))
    first = int(sys.argv[3])
    while True:
        await sink.publish("run:1", make_events("run:1", first, first + 19, size=5000))
        first += 20
        print(first, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("file", ["{stream}.jsonl", "events.jsonl"])
async def test_kill_9_of_the_writer_leaves_a_gapless_prefix_without_repeats(tmp_path: Path, file: str) -> None:
    target, confirmed = FileTarget(tmp_path, file), 1
    for number in range(5):
        writer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, f"file://{target.folder}", file, str(max(1, confirmed - 20)),
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert writer.stdout is not None
        for _ in range(3 + number):
            confirmed = int(await writer.stdout.readline())
        writer.kill()
        await writer.communicate()
    sink = target.sink()
    await sink.publish("run:1", make_events("run:1", confirmed - 20, confirmed + 100, size=5000))
    seqs = read_seqs(await target.stored("run:1"))
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(seqs) >= confirmed + 100


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("file:///a", {"file": "../x"}, "below the folder"),
        ("file:///a", {"file": "/x"}, "below the folder"),
        ("file://host/a", {}, "absolute path"),
        ("file:a", {}, "absolute path"),
        ("file:///a", {"mode": "x"}, "no option mode"),
    ],
)
def test_wrong_options_are_refused(url: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        FileSink(SinkConfig("log", url, "*", {**options}))

"""Archives: nothing leaves the store before a checked file holds it, and a damaged file is found."""

from __future__ import annotations

import asyncio
import json
import stat

import pytest

from holdfast.domain.errors import PositionPruned
from holdfast.domain.event import new_event
from holdfast.store.roles.maintenance import Retention
from holdfast.streams.archive.archive_file import (
    BadArchive,
    manifests,
    read_events,
    read_manifest,
    verify_archive,
    write_archive,
)
from holdfast.streams.archive.archiver import Archiver
from holdfast.streams.replay import read_again
from postgres import end_schema, fresh_schema, newest, start
from publishing import MemorySink, PublishHarness, sqlite_url

pytest_plugins = ("postgres",)

KEPT = Retention(1000, 1000, 1000, 1000, archive=True)


@pytest.fixture(params=["sqlite", "postgres"])
async def harness(request, tmp_path):
    if request.param == "sqlite":
        harness, server, schema = PublishHarness(sqlite_url(tmp_path)), None, ""
    else:
        server, schema = start(newest()), fresh_schema()
        harness = PublishHarness(server.url(schema))
    await harness.start(MemorySink())
    yield harness
    await harness.close()
    if server is not None:
        await end_schema(server, schema)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "archive"


async def archive(harness, folder):
    archiver = Archiver(harness.store, folder, KEPT.delivered_ms, 60.0, harness.clock, harness.chance)
    return await archiver.archive()


async def prune(harness) -> int:
    by = harness.owner.acting("retention")
    return (await harness.store.maintenance.prune(KEPT, 1000, by))["events"]


async def filled(harness) -> list[str]:
    """Two streams that were published and are past their retention. Returns the ids of the first."""
    payloads = [{"text": 'a "quoted" line\nand\u2028more', "number": 1.5}, None, [1, {"deep": []}]]
    added = [new_event("t", payload, stream="run:1", properties={"k": "v"}) for payload in payloads]
    appended = await harness.store.events.append([*added, new_event("t", stream="run:2")])
    await harness.run()
    harness.clock.advance(2)
    return [one.id for one in appended[:3]]


async def test_events_are_archived_then_pruned_then_read_again(harness, folder):
    ids = await filled(harness)
    before = await harness.store.events.read("run:1", 0, 10)
    assert await prune(harness) == 0
    manifest = await archive(harness, folder)
    assert (manifest.events, len(manifest.streams)) == (4, 2)
    assert await archive(harness, folder) is None
    assert await prune(harness) == 4
    again = await read_again(harness.store, folder, "run:1", 0, 3, 10)
    assert [event.id for event in again] == ids
    assert [event.body() for event in again] == [event.body() for event in before]
    assert [event.accepted_at_ms for event in again] == [event.accepted_at_ms for event in before]
    await harness.append("run:1")
    assert [event.seq for event in await read_again(harness.store, folder, "run:1", 3, 9, 10)] == [4]
    with pytest.raises(PositionPruned) as caught:
        await read_again(harness.store, None, "run:1", 0, 3, 10)
    assert (caught.value.first_seq, caught.value.archived) == (4, True)


async def test_events_that_a_reader_has_not_read_are_kept(harness, folder):
    await harness.store.cursors.ensure("slow", "run:1")
    await filled(harness)
    manifest = await archive(harness, folder)
    assert [one.stream for one in manifest.streams] == ["run:2"]
    assert await prune(harness) == 1
    assert len(await harness.store.events.read("run:1", 0, 10)) == 3


async def test_a_replay_sends_archived_events_again_with_their_ids(harness, folder):
    ids = await filled(harness)
    await archive(harness, folder)
    await prune(harness)
    (worker,) = harness.publisher.workers
    again = await read_again(harness.store, folder, "run:1", 0, 3, 10)
    await worker.replay("run:1", again)
    assert [event.id for event in worker.sink.events["run:1"]] == [*ids, *ids]
    assert await harness.position("run:1") == 3


async def test_the_files_are_private_and_every_damage_is_found(harness, folder):
    await filled(harness)
    manifest = await archive(harness, folder)
    assert manifests(folder) == [manifest.id]
    assert read_manifest(folder, manifest.id) == manifest == verify_archive(folder, manifest.id)
    files = {path.suffix: path for path in folder.iterdir()}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    whole = files[".zst"].read_bytes()
    for damaged in (whole[:-1], whole[:20] + bytes([whole[20] ^ 1]) + whole[21:], b""):
        files[".zst"].write_bytes(damaged)
        with pytest.raises(BadArchive):
            verify_archive(folder, manifest.id)
        with pytest.raises(BadArchive):
            list(read_events(folder, manifest.id, "run:1", 1, 3))
    files[".zst"].unlink()
    with pytest.raises(BadArchive):
        verify_archive(folder, manifest.id)
    value = json.loads(files[".json"].read_text())
    files[".json"].write_text(json.dumps({**value, "version": 99}))
    with pytest.raises(BadArchive, match="version 99"):
        read_manifest(folder, manifest.id)


async def test_a_failed_write_leaves_no_file_and_prunes_nothing(harness, folder):
    await filled(harness)
    folder.write_text("in the way")
    with pytest.raises(OSError):
        await archive(harness, folder)
    assert await prune(harness) == 0
    folder.unlink()
    events = await harness.store.events.read("run:1", 0, 10)

    def broken():
        yield events[0]
        raise RuntimeError("the disk failed")

    with pytest.raises(RuntimeError):
        await asyncio.to_thread(write_archive, folder, "one", broken(), 0)
    assert list(folder.iterdir()) == []


def test_stored_text_comes_back_unchanged(tmp_path):
    from holdfast.domain.event import Event

    texts = ["{}", '{"b": 1,"a":[ ]}', '"\\ud800"', "1e400", "null"]
    events = [
        Event(0, f"e{n}", "s", n, "app", "t", "2026-01-01T00:00:00Z", 5, "{}", text) for n, text in enumerate(texts, 1)
    ]
    write_archive(tmp_path / "a", "one", events, 0)
    assert [event.payload_json for event in read_events(tmp_path / "a", "one", "s", 1, 9)] == texts

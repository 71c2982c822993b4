"""Power cuts: whatever the disk keeps of its unsynced writes, nothing acknowledged is missing and nothing is half."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.event import new_event
from holdfast.proof.power_cuts.campaign import cut_power
from holdfast.proof.power_cuts.images import SECTOR, WAYS, counts, images
from holdfast.proof.power_cuts.recorder import Op, TestDisk
from holdfast.proof.power_cuts.workload import NO_BALLAST, Workload
from holdfast.store.roles.maintenance import Retention
from holdfast.store.roles.owners import Actor
from holdfast.store.sqlite.log import STEP_BYTES
from holdfast.store.sqlite.store import SqliteStore, inline_executor
from holdfast.testing.clock import ManualClock

LIFE = [
    Op("write", "", 0, b"a" * SECTOR * 4),
    Op("sync", ""),
    Op("write", "", SECTOR, b"b" * SECTOR * 2),
    Op("truncate", "", SECTOR * 3),
    Op("write", "-wal", 0, b"w"),
    Op("sync", ""),
    Op("delete", "-wal"),
]


def left(point: int, seed: int = 0) -> dict[str, dict[str, bytes]]:
    return {image.way: image.files for image in images(LIFE, [point], Random(seed))}


def test_what_was_synced_is_there_whatever_happens() -> None:
    assert left(0) == {"kept": {}}
    assert left(2) == {"kept": {"": b"a" * SECTOR * 4}}
    after = b"a" * SECTOR + b"b" * SECTOR * 2
    assert {way: files[""] for way, files in left(6).items()} == dict.fromkeys(WAYS, after)
    assert left(7) == {"kept": {"": after}}


def test_what_was_not_synced_may_be_kept_dropped_or_torn() -> None:
    at = left(4)
    assert at["dropped"][""] == b"a" * SECTOR * 4
    assert at["kept"][""] == b"a" * SECTOR + b"b" * SECTOR * 2
    found = {left(4, seed)["torn"][""] for seed in range(50)}
    sectors = {content[i : i + SECTOR] for content in found for i in range(0, len(content), SECTOR)}
    assert sectors == {b"a" * SECTOR, b"b" * SECTOR}  # torn between sectors, never within
    assert len(found) > 4


def test_the_number_of_images_at_a_point_is_known_beforehand() -> None:
    assert counts(LIFE) == [len(left(point)) for point in range(len(LIFE) + 1)]


async def test_a_commit_that_changes_nothing_writes_nothing_and_takes_no_loose_commit_along(tmp_path: Path) -> None:
    with TestDisk("telling", recording=True) as disk:
        clock = ManualClock()
        store = SqliteStore.open(
            tmp_path / "h.db", driver=disk.name, keep=True, executor=inline_executor, disk_space=NO_BALLAST, clock=clock
        )
        await store.contracts.put(Contract("plain", parse_address("handler:a")), None)
        disk.ops.clear()
        clock.advance(1)  # or what is written may be what is there, and SQLite writes nothing
        await store.deliveries.record_served(["handler:a"])
        assert {(op.kind, op.file) for op in disk.ops} == {("write", "-wal")}  # committed, not synced
        disk.ops.clear()
        await store.maintenance.prune(Retention(1, 1, 1, 1), 50, Actor("node-0001", "retention"))
        assert disk.ops == []
        await store.events.append([new_event("t.x")])
        assert disk.ops[-1][:2] == ("sync", "-wal")  # and with it what was loose
        await store.close()


class Compared(Workload):
    """Before each checkpoint it compares the real files with what the recording says they hold."""

    compared = 0

    async def _checkpoint(self) -> None:
        ops = self._disk.ops
        (kept,) = [image for image in images(ops, [len(ops)], Random(0)) if image.way == "kept"]
        for file in ("", "-wal"):
            path = self._path.with_name(self._path.name + file)
            assert kept.files.get(file, b"") == (path.read_bytes() if path.exists() else b"")
        self.compared += 1
        await super()._checkpoint()


async def test_the_recording_has_every_byte_also_of_a_preallocated_log(tmp_path: Path) -> None:
    with TestDisk("compared", recording=True) as disk:
        life = Compared(tmp_path, disk, 5)
        recording = await life.run(40)
    assert recording.laid > 0
    assert life.compared > 0
    assert any(op.file == "-wal" and op.data == bytes(STEP_BYTES) for op in recording.ops)


@pytest.mark.parametrize(("written", "promised"), [(b"", 0), (bytes(STEP_BYTES), 0), (b"\0frame", 1)])
def test_an_answer_promises_nothing_only_if_no_frame_was_written(tmp_path: Path, written: bytes, promised: int) -> None:
    life = Workload(tmp_path, TestDisk("unused", recording=True), 1)
    life.recording.digests += ["same", "same"]
    if written:
        life._disk.does("write", "h.db-wal", 0, written)
    life._promise()
    assert (len(life.recording.promised), life.recording.excused) == (promised, 1 - promised)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_store_survives_power_cuts_at_any_moment(seed: int) -> None:
    tally = cut_power(seed, 250)
    assert tally.faults == []
    assert tally.images == 250
    assert set(tally.ways) == set(WAYS)


@pytest.mark.slow
def test_a_disk_that_does_not_sync_is_detected() -> None:
    """The harness can fail: without honest syncs, acknowledged events are missing and it says so."""
    tally = cut_power(3, 60, lying=True)
    assert tally.faulty > 10
    assert any("lost evt_" in fault or "damaged" in fault or "no promised commit" in fault for fault in tally.faults)

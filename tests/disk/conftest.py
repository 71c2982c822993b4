"""A disk that fails on request, under the real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.proof.power_cuts.recorder import TestDisk
from holdfast.store.sqlite.disk import DiskSpace
from holdfast.store.sqlite.store import SqliteStore, inline_executor
from holdfast.testing.clock import ManualClock, SeededChance


class Shelf:
    """Opens stores in one folder, on a disk of the test's own, with a clock it moves."""

    def __init__(self, folder: Path, disk: TestDisk) -> None:
        self.path, self.disk, self.driver = folder / "h.db", disk, disk.name
        self.clock = ManualClock()
        self.free = 1 << 30

    def open(self, *, driver: str | None = None, disk_space: DiskSpace | None = None, keep: bool = True) -> SqliteStore:
        small = DiskSpace(low_water_bytes=3 << 20, ballast_bytes=1 << 20, free=lambda folder: self.free)
        return SqliteStore.open(
            self.path,
            driver=driver or self.driver,
            keep=keep,
            clock=self.clock,
            chance=SeededChance(1),
            executor=inline_executor,
            disk_space=disk_space or small,
        )


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    with TestDisk("faulty") as disk:
        yield Shelf(tmp_path, disk)

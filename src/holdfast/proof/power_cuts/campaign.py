"""Many power cuts: record a workload, choose moments, and check every image they leave."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from random import Random

from holdfast.proof.power_cuts.checker import check_image
from holdfast.proof.power_cuts.images import counts, images
from holdfast.proof.power_cuts.recorder import TestDisk
from holdfast.proof.power_cuts.workload import Workload

IMAGES_PER_SEED = 1000
STEPS = 120
FAULTS_SHOWN = 10


@dataclass(slots=True)
class Tally:
    """The number of images checked, and the faults found."""

    ways: Counter[str] = field(default_factory=Counter)
    recordings: int = 0
    commits: int = 0
    laid: int = 0
    excused: int = 0
    faulty: int = 0
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def images(self) -> int:
        return self.ways.total()

    def add(self, other: Tally) -> None:
        self.ways += other.ways
        self.recordings += other.recordings
        self.commits += other.commits
        self.laid += other.laid
        self.excused += other.excused
        self.faulty += other.faulty
        self.faults = (self.faults + other.faults)[:FAULTS_SHOWN]


def cut_power(seed: int, wanted: int, *, steps: int = STEPS, lying: bool = False) -> Tally:
    """Record one workload and check `wanted` images. `lying`: a disk that ignores syncs, which must be detected."""
    with tempfile.TemporaryDirectory(prefix="holdfast-disk-", dir=_quick_place()) as folder:
        return asyncio.run(_cut_power(Path(folder), seed, wanted, steps, lying))


async def _cut_power(folder: Path, seed: int, wanted: int, steps: int, lying: bool) -> Tally:
    with TestDisk(f"recorded-{os.getpid()}-{seed}", recording=True, lying=lying) as disk:
        recording = await Workload(folder, disk, seed).run(steps)
    chance = Random(seed)
    points = _points(counts(recording.ops), wanted, chance)
    tally = Tally(
        recordings=1, commits=len(recording.digests), laid=recording.laid, excused=recording.excused
    )  # fmt: skip
    for image in images(recording.ops, points, chance):
        faults = await check_image(image, recording, folder / "image.db")
        tally.ways[image.way] += 1
        tally.faulty += bool(faults)
        tally.faults += [f"seed {seed}, {fault}" for fault in faults][: FAULTS_SHOWN - len(tally.faults)]
        if tally.images >= wanted:
            break
    return tally


def _points(at_each: list[int], wanted: int, chance: Random) -> list[int]:
    """Random moments, enough for `wanted` images; all moments if there are not enough."""
    moments = list(range(len(at_each)))
    chance.shuffle(moments)
    needed = bisect_left(list(accumulate(at_each[moment] for moment in moments)), wanted)
    return moments[: needed + 1]


def campaign(wanted: int, seed: int, jobs: int) -> Iterator[Tally]:
    """Yields the growing tally; the last one is complete."""
    began_s = time.monotonic()
    total = Tally()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        shares = [min(IMAGES_PER_SEED, wanted - start) for start in range(0, wanted, IMAGES_PER_SEED)]
        for tally in pool.map(cut_power, range(seed, seed + len(shares)), shares):
            total.add(tally)
            total.seconds = time.monotonic() - began_s
            yield total


def _quick_place() -> str | None:
    """A folder in memory if possible: the disk under test is a model, and a real one would only be slower."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

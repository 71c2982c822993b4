"""Run inside a mount namespace: a store on a disk that really is small, filled to the last byte and emptied again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from holdfast.domain.delivery import Delivered
from holdfast.domain.errors import StoreFull
from holdfast.store.sqlite.disk import DiskSpace, free_bytes
from holdfast.store.sqlite.store import SqliteStore, inline_executor
from holdfast.testing.suite.harness import Harness

T = TypeVar("T")
MIB = 1 << 20
ROOM = DiskSpace(low_water_bytes=6 * MIB, ballast_bytes=2 * MIB)


def fill(path: Path, leave: int) -> None:
    """Take up room until only so much is left."""
    with path.open("ab") as file, contextlib.suppress(OSError):
        while free_bytes(path.parent) > leave:
            os.write(file.fileno(), bytes(min(MIB, free_bytes(path.parent) - leave) or 1))


class Retrying:
    """Does again what found no room, as the engine does with its next tick."""

    def __init__(self) -> None:
        self.refused = 0

    async def __call__(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except StoreFull:
                self.refused += 1
                assert self.refused < 10, "the ballast did not help"


async def deliver(harness: Harness, count: int) -> int:
    """Claim and settle so many, with a checkpoint now and then. How often there was no room at first."""
    patiently = Retrying()
    for number in range(count):
        if number % 10 == 0:
            await patiently(harness.store.maintenance.checkpoint)
        claim = await patiently(harness.take)
        assert await patiently(partial(harness.settle, claim, Delivered()))
    return patiently.refused


async def story(folder: Path) -> None:
    async def open_store(name, clock, chance, keep):
        return SqliteStore.open(
            folder / "h.db", keep=keep, clock=clock, chance=chance, executor=inline_executor, disk_space=ROOM
        )

    harness, filler, ballast = await Harness.start(open_store), folder / "filler", folder / "h.db.ballast"
    await harness.contract("c", "handler:h", ordered=True)
    accepted = [(await harness.emit("t", "x" * 20_000, stream="s")).id for _ in range(60)]
    await harness.route()
    harness.store.maintenance.changed_elsewhere()
    fill(filler, 5 * MIB)
    harness.clock.advance(1)
    (refusal,) = await asyncio.gather(harness.emit(), return_exceptions=True)
    assert isinstance(refusal, StoreFull)
    assert not harness.store.maintenance.gauges()["intake_open"]
    assert ballast.exists()
    assert await deliver(harness, 10) == 0
    fill(filler, 0)
    assert await deliver(harness, 40) > 0
    assert not ballast.exists()
    harness.clock.advance(100)
    assert (await harness.prune(delivered_s=10))["deliveries"] == 50
    await harness.store.maintenance.checkpoint()
    filler.unlink()
    harness.clock.advance(5)
    accepted.append((await harness.emit("t", stream="s")).id)
    harness.store.maintenance.changed_elsewhere()
    assert ballast.exists()
    assert await harness.store.maintenance.check() == []
    assert await harness.faults() == []
    await harness.close()
    again = await open_store("", harness.clock, harness.chance, True)
    kept = [event.id for event in await again.events.read("s", 0, 1000)]
    assert kept == accepted[50:], "what was not pruned is there, in order"
    await again.close()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]).returncode:
        sys.exit(77)
    asyncio.run(story(place))
    print("done")

"""Opens an image with the real store, and compares it with what was promised."""

from __future__ import annotations

from pathlib import Path

from holdfast.domain.errors import HoldfastError
from holdfast.domain.event import new_event
from holdfast.ledger.verifier import verify_receipts
from holdfast.proof.power_cuts.contents import digest, stray_rows
from holdfast.proof.power_cuts.images import Image
from holdfast.proof.power_cuts.workload import NO_BALLAST, Recording
from holdfast.store.sqlite.connection import ApswConnection
from holdfast.store.sqlite.store import SqliteStore, inline_executor
from holdfast.testing.clock import ManualClock, SeededChance


async def check_image(image: Image, recording: Recording, database: Path) -> list[str]:
    """The faults of an image; empty if every promise was kept."""
    image.write(database)
    try:
        faults = await _check(image, recording, database)
    except (HoldfastError, ValueError) as error:  # ValueError: invalid UTF-8
        faults = [f"the store cannot be opened or read: {error}"]
    return [f"cut at {image.point}, unsynced writes {image.way}: {fault}" for fault in faults]


async def _check(image: Image, recording: Recording, database: Path) -> list[str]:
    store = SqliteStore.open(
        database, keep=True, clock=ManualClock(), chance=SeededChance(image.point), executor=inline_executor,
        disk_space=NO_BALLAST,
    )  # fmt: skip
    look = ApswConnection(database)
    try:
        faults = _look(image, recording, look)
        found = await verify_receipts(store.receipts, rows=True)
        faults += [f"a receipt does not verify: {fault}" for fault in found.faults[:5]]
        await store.owners.register()
        (again,) = await store.events.append([new_event("t.after", stream="after")])
        if await store.events.get(again.id) is None:
            faults.append("the store accepts no new event")
    finally:
        look.close()
        await store.close()
    return faults


def _look(image: Image, recording: Recording, look: ApswConnection) -> list[str]:
    faults = [str(row[0]) for row in look.rows("PRAGMA integrity_check(5)") if row[0] != "ok"]
    faults += [f"there is {what}" for what in stray_rows(look)]
    if image.point < recording.opened_at:  # the store was still being created: it must only open
        return faults
    known = {row[0] for row in look.rows("SELECT id FROM holdfast_events")}
    faults += [f"lost {id}" for id in recording.accepted_by(image.point) if id not in known][:5]
    if digest(look) not in recording.allowed(image.point):
        faults.append("the content is not the state of the last promised commit or of a later one")
    return faults

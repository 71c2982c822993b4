"""Run inside a mount namespace: a home on a disk that is full, then read-only, then writable again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from holdfast.agents.receiver.fallback_folders import count_waiting, recent_failures
from holdfast.agents.receiver.spool_duty import SpoolDuty
from holdfast.ingress.importer import SpoolImport
from receiving import Receiver, silent

BODY = b"x" * 20_000


def mount(*words: str) -> None:
    if subprocess.run(["mount", *words]).returncode:
        sys.exit(77)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue


class Looker(SpoolImport):
    """Sees what would be imported, and in which order, and appends nothing."""

    seen: list[str] = []  # noqa: RUF012

    async def tick(self) -> float | None:
        self.seen += [str(self._folder / place.name) for place in self._list()]
        return 1.0


async def story(home: Path, command: list[str]) -> None:
    receiver = Receiver(home, command)
    (home / "spool").mkdir(mode=0o700)
    assert silent(receiver("--agent", "claude", "one", stdin=BODY))
    fill(home / "filler")
    assert silent(receiver("--agent", "claude", "two", stdin=BODY))
    assert len(receiver.names()) == 1, "on a full disk nothing half is left"
    assert len(os.listdir(home / "spool")) == 1
    mount("-o", "remount,ro", str(home))
    assert silent(receiver("--agent", "claude", "three", stdin=BODY))
    assert [(header["event"], body) for header, body in receiver.kept_elsewhere()] == [("two", BODY), ("three", BODY)]
    (message,) = recent_failures(home, 0)
    assert "2 hook events were kept in a fallback folder" in message, message
    assert "Read-only file system" in message
    assert count_waiting(home) == 3
    mount("-o", "remount,rw", str(home))
    (home / "filler").unlink()
    assert silent(receiver("--agent", "claude", "four", stdin=BODY))
    await SpoolDuty(home, Looker(home / "spool", None, Clock()), lambda folder: Looker(folder, None, Clock())).tick()
    assert [path.startswith(str(home)) for path in Looker.seen] == [False, False, True, True]


class Clock:
    boot_id = "0" * 32


if __name__ == "__main__":
    place = Path(sys.argv[1])
    mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", "/var/tmp")
    mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place))
    asyncio.run(story(place, sys.argv[2:]))
    print("done")

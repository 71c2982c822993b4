"""What wiring did to each file, so that it can be undone to the byte.

Kept in the home folder as hashes and names only: the bytes themselves lie beside the file they are of.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.agents.install.files import digest, read
from holdfast.home import Home, write_secret

FILES_MAX = 500


class InstalledFile(NamedTuple):
    """A file as it was before it was first wired, and as wiring left it."""

    before: str | None
    after: str | None
    copy: str | None
    made: tuple[str, ...]


class InstallRecord:
    def __init__(self, home: Home) -> None:
        self._home = home
        self._path = home.root / "wired.json"
        self._entries = self._read()

    def find(self, path: Path) -> InstalledFile | None:
        return self._entries.get(str(path))

    def original(self, path: Path, now: bytes | None) -> tuple[bool, bytes | None]:
        """Whether the bytes from before are known and nothing else changed since; and those bytes."""
        entry = self.find(path)
        if entry is None or entry.after != digest(now):
            return False, None
        if entry.before is None:
            return True, None
        kept = None if entry.copy is None else read(Path(entry.copy))
        return (True, kept) if kept is not None and digest(kept) == entry.before else (False, None)

    def put(self, path: Path, entry: InstalledFile) -> None:
        self._entries.pop(str(path), None)
        self._entries[str(path)] = entry
        while len(self._entries) > FILES_MAX:
            del self._entries[next(iter(self._entries))]
        self._write()

    def drop(self, path: Path) -> None:
        if self._entries.pop(str(path), None) is not None:
            self._write()

    def _read(self) -> dict[str, InstalledFile]:
        """A record that cannot be read is none: undoing then removes our entries one by one."""
        try:
            raw = json.loads(self._path.read_bytes())
            return {path: _entry(shape) for path, shape in raw["files"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _write(self) -> None:
        if not self._entries:
            self._path.unlink(missing_ok=True)
            return
        self._home.make()
        files = {path: entry._asdict() for path, entry in self._entries.items()}
        write_secret(self._path, json.dumps({"v": 1, "files": files}, indent=2))


def _entry(shape: dict[str, Any]) -> InstalledFile:
    return InstalledFile(shape["before"], shape["after"], shape["copy"], tuple(shape["made"]))

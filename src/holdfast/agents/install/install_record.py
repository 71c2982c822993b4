"""InstallRecord: what the installer changed in each file, so that it can be undone to the byte.

The record in the home folder holds hashes and paths. The original bytes are in a backup next to each file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from holdfast.agents.install.files import digest, read
from holdfast.domain.json_value import KnownJson
from holdfast.home import Home, write_secret

FILES_MAX = 500
HOOKS_RECORD, MCP_RECORD = "installed-hooks.json", "installed-mcp.json"


class InstalledFile(NamedTuple):
    """Hashes of a file before and after the installation, the path of its backup, and folders made for it."""

    before: str | None
    after: str | None
    copy: str | None
    made: tuple[str, ...]


class InstallRecord:
    def __init__(self, home: Home, name: str = HOOKS_RECORD) -> None:
        self._home, self._name = home, name
        self._path = home.root / name
        self._files = self._read()

    def find(self, path: Path) -> InstalledFile | None:
        return self._files.get(str(path))

    def copies_elsewhere(self, path: Path) -> list[Path]:
        """Backups of the same file that the record of another installer names."""
        others = [InstallRecord(self._home, name) for name in (HOOKS_RECORD, MCP_RECORD) if name != self._name]
        found = [file for other in others if (file := other.find(path)) is not None]
        return [Path(file.copy) for file in found if file.copy is not None]

    def original(self, path: Path, now: bytes | None) -> tuple[bool, bytes | None]:
        """Whether the original bytes can be restored, and those bytes. They can if nothing else changed the file."""
        file = self.find(path)
        if file is None or file.after != digest(now):
            return False, None
        if file.before is None:
            return True, None
        backup = None if file.copy is None else read(Path(file.copy))
        return (True, backup) if backup is not None and digest(backup) == file.before else (False, None)

    def put(self, path: Path, file: InstalledFile) -> None:
        self._files.pop(str(path), None)
        self._files[str(path)] = file
        while len(self._files) > FILES_MAX:
            del self._files[next(iter(self._files))]
        self._write()

    def drop(self, path: Path) -> None:
        if self._files.pop(str(path), None) is not None:
            self._write()

    def _read(self) -> dict[str, InstalledFile]:
        """An unreadable record counts as empty: uninstall then removes our entries one by one."""
        try:
            raw = json.loads(self._path.read_bytes())
            return {path: _installed_file(value) for path, value in raw["files"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _write(self) -> None:
        if not self._files:
            self._path.unlink(missing_ok=True)
            return
        self._home.make()
        files = {path: file._asdict() for path, file in self._files.items()}
        write_secret(self._path, json.dumps({"v": 1, "files": files}, indent=2))


def _installed_file(value: KnownJson) -> InstalledFile:
    return InstalledFile(value["before"], value["after"], value["copy"], tuple(value["made"]))

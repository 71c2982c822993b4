"""The files of a schedule: a database and a spool, in memory if possible."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.domain.event import NewEvent, iso_time
from holdfast.proof.simulation.driver import ColdFiles, CrashCountdown, WarmFile
from holdfast.store.sqlite.connection import tune
from holdfast.store.sqlite.migrate import scripts, split, version_known
from holdfast.store.sqlite.store import prepare_file
from holdfast.testing.clock import NOON_MS

_MEMORY = Path("/dev/shm")
_PUBLISH = """
INSERT INTO holdfast_publish (id, type, payload, source, stream, timestamp, dedup_key, accepted_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_META = "INSERT INTO holdfast_meta (key, value) VALUES ('schema_version', ?), ('kind', 'own'), ('made_by', 'earlier')"


@dataclass(frozen=True, slots=True)
class Workspace:
    path: Path
    files: ColdFiles
    spool: Path
    templates: Path

    @property
    def driver(self) -> str:
        return self.files.driver

    @property
    def countdown(self) -> CrashCountdown:
        return self.files.countdown

    def make_old(self, version: int, events: list[tuple[str, NewEvent]]) -> None:
        """Replace the store with one of an earlier version that holds unrouted events."""
        template = self.templates / f"version{version}.db"
        if not template.exists():
            self._make_template(template, version)
        shutil.copyfile(template, self.path)
        connection = self.files.connect(self.path)
        tune(connection)
        for id, event in events:
            at = iso_time(NOON_MS)
            row = (id, event.type, event.payload.decode(), event.source, event.stream, at, event.dedup_key, NOON_MS)
            connection.run(_PUBLISH, row)
        connection.close()

    def _make_template(self, path: Path, version: int) -> None:
        connection = self.files.connect(path)
        tune(connection)
        connection.run("BEGIN IMMEDIATE")
        for number, script in scripts():
            if number <= version:
                for statement in split(script):
                    connection.run(statement)
        connection.run(_META, (str(version),))
        connection.run("COMMIT")
        connection.close()


class Workspaces:
    """Makes workspaces. Most schedules share one open file; a new file costs as much as a short schedule."""

    def __enter__(self) -> Workspaces:
        place = _MEMORY if _MEMORY.is_dir() else None
        self._exits = ExitStack()
        self._root = Path(self._exits.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-sim-", dir=place)))
        self._template, self._spool = self._root / "template.db", self._root / "spool"
        self._cold = self._exits.enter_context(ColdFiles())
        prepare_file(self._template, self._cold.driver, own=True, create=True)
        self._spool.mkdir()
        self._warm = self._exits.enter_context(WarmFile(self._root / "warm.db"))
        return self

    def __exit__(self, *exception: object) -> None:
        self._exits.close()

    @contextmanager
    def warm(self) -> Iterator[Workspace]:
        """The shared open file, emptied."""
        self._warm.empty()
        self._clear_spool()
        yield Workspace(self._warm.path, self._warm, self._spool, self._root)

    @contextmanager
    def fresh(self) -> Iterator[Workspace]:
        """A new file, which every process opens and closes."""
        folder = self._root / "fresh"
        folder.mkdir()
        path = folder / "sim.db"
        shutil.copyfile(self._template, path)
        self._clear_spool()
        try:
            yield Workspace(path, self._cold, self._spool, self._root)
        finally:
            shutil.rmtree(folder)

    def _clear_spool(self) -> None:
        for left in self._spool.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()


VERSIONS = range(1, version_known())
"""Earlier schema versions that a store may have."""

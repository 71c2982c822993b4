"""Verbs on archives: list, verify."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from holdfast.domain.errors import NotFound
from holdfast.domain.event import iso_time
from holdfast.operations.answers.archives import ArchiveAnswer, ArchiveFault, ArchiveVerification
from holdfast.operations.answers.page import LIMIT_DEFAULT, Page, check_limit
from holdfast.operations.context import OperationsContext
from holdfast.ports import in_thread
from holdfast.store.roles.archives import ArchiveRow
from holdfast.streams.archive.archive_file import BadArchive, verify_archive


class ArchiveVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._context, self._archives = context, context.store.archives

    async def find(self, *, after: str | None = None, limit: int = LIMIT_DEFAULT) -> Page[ArchiveAnswer]:
        """Archives, oldest first."""
        rows = await self._archives.all(after or "", check_limit(limit))
        answers = [
            ArchiveAnswer(row.id, row.events, row.bytes, row.sha256, iso_time(row.created_at_ms)) for row in rows
        ]
        return Page(answers, rows[-1].id if len(rows) == limit else None)

    async def verify(self) -> ArchiveVerification:
        """Read every archive and compare it with its manifest and with the store's record."""
        folder, after = self._folder(), ""
        checked = events = 0
        faults: list[ArchiveFault] = []
        while rows := await self._archives.all(after, 100):
            for row in rows:
                fault = await in_thread("files", partial(_fault, folder, row))
                checked, events = checked + 1, events + row.events
                if fault is not None:
                    faults.append(ArchiveFault(row.id, fault))
            after = rows[-1].id
        return ArchiveVerification(checked, events, faults)

    def _folder(self) -> Path:
        if self._context.archive_folder is None:
            raise NotFound("this daemon has no archive; set retention.archive_folder in holdfast.yml")
        return self._context.archive_folder


def _fault(folder: Path, row: ArchiveRow) -> str | None:
    try:
        manifest = verify_archive(folder, row.id)
    except BadArchive as error:
        return error.message
    same = (manifest.sha256, manifest.events) == (row.sha256, row.events)
    return None if same else "its manifest differs from what the store recorded"

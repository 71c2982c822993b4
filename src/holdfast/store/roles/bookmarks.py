"""Bookmarks: how far the transcript files of agent sessions were read."""

from __future__ import annotations

from typing import Protocol

from holdfast.domain.bookmark import Bookmark


class Bookmarks(Protocol):
    """Positions in files, by session id and a key that identifies the file. Removed together with their session."""

    async def get(self, session: str, file: str) -> Bookmark | None:
        """The bookmark of a file; None: never read."""

    async def put(self, session: str, file: str, bookmark: Bookmark) -> None:
        """Set a bookmark. Raises Conflict when the stored one is ahead: another process reads the same file."""

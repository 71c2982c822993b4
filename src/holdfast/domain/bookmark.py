"""Bookmark: how far a file has been read, as a byte offset. Streams have cursors instead."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.domain.errors import Conflict


class Bookmark(NamedTuple):
    """A position in a file that may be truncated or replaced: then `generation` grows and the offset starts over.

    Bookmarks compare in reading order.

    >>> Bookmark(1, 0) > Bookmark(0, 4096)
    True
    """

    generation: int
    offset: int


def bookmark_conflict(session: str, bookmark: Bookmark) -> Conflict:
    """The error when a stored bookmark is ahead of the one to store."""
    return Conflict(
        f"another process reads the same transcript of session {session!r} and is ahead of generation "
        f"{bookmark.generation}, offset {bookmark.offset}"
    )

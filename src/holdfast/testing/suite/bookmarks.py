"""Bookmarks: how far a session's transcript file was read."""

from __future__ import annotations

import pytest

from holdfast.domain.bookmark import Bookmark
from holdfast.domain.errors import Conflict
from holdfast.testing.suite.harness import Harness, StoreSuite


class BookmarksSuite(StoreSuite):
    async def test_a_file_that_was_never_read_has_no_bookmark(self, harness: Harness) -> None:
        assert await harness.store.bookmarks.get("s", "file") is None

    async def test_a_bookmark_moves_forward_or_stays(self, harness: Harness) -> None:
        for offset in (0, 10, 10, 25):
            await harness.store.bookmarks.put("s", "file", Bookmark(0, offset))
            assert await harness.store.bookmarks.get("s", "file") == Bookmark(0, offset)

    async def test_a_bookmark_never_moves_back_within_a_generation(self, harness: Harness) -> None:
        await harness.store.bookmarks.put("s", "file", Bookmark(1, 20))
        for behind in (Bookmark(1, 19), Bookmark(0, 500)):
            with pytest.raises(Conflict, match="ahead"):
                await harness.store.bookmarks.put("s", "file", behind)
        assert await harness.store.bookmarks.get("s", "file") == Bookmark(1, 20)

    async def test_a_new_generation_starts_at_any_offset(self, harness: Harness) -> None:
        await harness.store.bookmarks.put("s", "file", Bookmark(0, 1 << 45))
        await harness.store.bookmarks.put("s", "file", Bookmark(1, 3))
        assert await harness.store.bookmarks.get("s", "file") == Bookmark(1, 3)

    async def test_sessions_and_files_do_not_share_a_bookmark(self, harness: Harness) -> None:
        bookmarks = harness.store.bookmarks
        for offset, (session, file) in enumerate((("a", "x"), ("a", "y"), ("b", "x"))):
            await bookmarks.put(session, file, Bookmark(0, offset))
        assert [await bookmarks.get(*key) for key in (("a", "x"), ("a", "y"), ("b", "x"))] == [(0, 0), (0, 1), (0, 2)]

    async def test_a_bookmark_survives_a_crash(self, harness: Harness) -> None:
        await harness.store.bookmarks.put("s", "file", Bookmark(0, 4))
        await harness.crash()
        assert await harness.store.bookmarks.get("s", "file") == Bookmark(0, 4)

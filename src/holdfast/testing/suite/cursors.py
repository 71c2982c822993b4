"""Cursors: one reader's position in one stream."""

from __future__ import annotations

import pytest

from holdfast.domain.errors import Conflict, NotFound
from holdfast.testing.suite.harness import Harness, StoreSuite


class CursorsSuite(StoreSuite):
    async def test_a_new_cursor_is_before_the_first_event(self, harness: Harness) -> None:
        assert await harness.store.cursors.get("publisher", "s") is None
        cursor = await harness.store.cursors.ensure("publisher", "s")
        assert (cursor.position, cursor.next_seq) == (0, 1)
        assert await harness.store.cursors.get("publisher", "s") == cursor

    async def test_ensuring_again_moves_nothing(self, harness: Harness) -> None:
        await harness.store.cursors.ensure("publisher", "s")
        await harness.store.cursors.advance("publisher", "s", 7)
        assert (await harness.store.cursors.ensure("publisher", "s")).position == 7

    async def test_a_cursor_only_moves_forward(self, harness: Harness) -> None:
        await harness.store.cursors.ensure("publisher", "s")
        harness.clock.advance(5)
        moved = await harness.store.cursors.advance("publisher", "s", 3)
        assert (moved.position, moved.updated_at_ms) == (3, harness.clock.now_ms())
        with pytest.raises(Conflict):
            await harness.store.cursors.advance("publisher", "s", 2)
        assert await harness.store.cursors.get("publisher", "s") == moved

    async def test_readers_and_streams_do_not_share_a_cursor(self, harness: Harness) -> None:
        for reader, stream in (("a", "x"), ("a", "y"), ("b", "x")):
            await harness.store.cursors.ensure(reader, stream)
        await harness.store.cursors.advance("a", "x", 5)
        cursors = [await harness.store.cursors.get(*key) for key in (("a", "x"), ("a", "y"), ("b", "x"))]
        assert [cursor.position for cursor in cursors if cursor] == [5, 0, 0]

    async def test_a_cursor_that_was_never_made_cannot_be_moved(self, harness: Harness) -> None:
        with pytest.raises(NotFound):
            await harness.store.cursors.advance("publisher", "s", 1)

    async def test_a_cursor_survives_a_crash(self, harness: Harness) -> None:
        await harness.store.cursors.ensure("publisher", "s")
        await harness.store.cursors.advance("publisher", "s", 4)
        await harness.crash()
        cursor = await harness.store.cursors.get("publisher", "s")
        assert cursor is not None
        assert cursor.position == 4

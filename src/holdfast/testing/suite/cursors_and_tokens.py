"""The small roles: cursors, owners and tokens."""

from __future__ import annotations

import pytest

from holdfast.domain.delivery import Delivered
from holdfast.domain.errors import Conflict, KeeperHeld, NotFound
from holdfast.domain.event import new_event
from holdfast.store.base import Feature, TokenRow
from holdfast.testing.suite.harness import Bench, StoreSuite


class CursorsSuite(StoreSuite):
    async def test_a_fresh_cursor_stands_before_the_first_event(self, bench: Bench) -> None:
        assert await bench.store.cursors.get("publisher", "s") is None
        cursor = await bench.store.cursors.ensure("publisher", "s")
        assert (cursor.position, cursor.next_seq) == (0, 1)
        assert await bench.store.cursors.get("publisher", "s") == cursor

    async def test_ensuring_again_moves_nothing(self, bench: Bench) -> None:
        await bench.store.cursors.ensure("publisher", "s")
        await bench.store.cursors.advance("publisher", "s", 7)
        assert (await bench.store.cursors.ensure("publisher", "s")).position == 7

    async def test_a_cursor_only_moves_forward(self, bench: Bench) -> None:
        await bench.store.cursors.ensure("publisher", "s")
        bench.clock.advance(5)
        moved = await bench.store.cursors.advance("publisher", "s", 3)
        assert (moved.position, moved.updated_at_ms) == (3, bench.clock.now_ms())
        with pytest.raises(Conflict):
            await bench.store.cursors.advance("publisher", "s", 2)
        assert await bench.store.cursors.get("publisher", "s") == moved

    async def test_readers_and_streams_do_not_share_a_cursor(self, bench: Bench) -> None:
        for reader, stream in (("a", "x"), ("a", "y"), ("b", "x")):
            await bench.store.cursors.ensure(reader, stream)
        await bench.store.cursors.advance("a", "x", 5)
        cursors = [await bench.store.cursors.get(*key) for key in (("a", "x"), ("a", "y"), ("b", "x"))]
        assert [cursor.position for cursor in cursors if cursor] == [5, 0, 0]

    async def test_a_cursor_that_was_never_made_cannot_be_moved(self, bench: Bench) -> None:
        with pytest.raises(NotFound):
            await bench.store.cursors.advance("publisher", "s", 1)

    async def test_a_cursor_survives_a_crash(self, bench: Bench) -> None:
        await bench.store.cursors.ensure("publisher", "s")
        await bench.store.cursors.advance("publisher", "s", 4)
        await bench.crash()
        cursor = await bench.store.cursors.get("publisher", "s")
        assert cursor is not None
        assert cursor.position == 4


class OwnersSuite(StoreSuite):
    async def test_a_chain_is_used_again_after_its_owner_retired(self, bench: Bench) -> None:
        await bench.store.owners.retire(bench.owner)
        successor = await bench.store.owners.enlist()
        assert successor.chain == bench.owner.chain
        assert successor.id != bench.owner.id

    async def test_a_chain_is_used_again_after_its_owner_died(self, bench: Bench) -> None:
        before = bench.owner
        for _ in range(5):
            await bench.crash()
        assert bench.owner.chain == before.chain
        assert len(await bench.store.receipts.heads()) == 1

    async def test_a_chain_is_never_shared_by_two_live_owners(self, bench: Bench) -> None:
        other = await bench.another()
        owners = [bench.owner, *[await other.owners.enlist() for _ in range(3)]]
        assert len({owner.chain for owner in owners}) == len({owner.id for owner in owners}) == 4
        await other.owners.retire(owners[2])
        assert (await other.owners.enlist()).chain == owners[2].chain

    async def test_retiring_twice_is_harmless(self, bench: Bench) -> None:
        await bench.store.owners.retire(bench.owner)
        await bench.store.owners.retire(bench.owner)

    async def test_an_owner_id_is_never_given_twice_even_after_long_times(self, bench: Bench) -> None:
        seen = [bench.owner.id]
        for _ in range(4):
            bench.clock.advance(86_400 * 2)
            await bench.crash()
            seen.append(bench.owner.id)
        assert len(set(seen)) == len(seen)

    async def test_a_second_keeper_is_refused_until_the_first_is_gone(self, bench: Bench) -> None:
        bench.needs(Feature.ONE_KEEPER)
        with pytest.raises(KeeperHeld):
            await bench.another(keep=True)
        await bench.store.close()
        await bench.reopen()

    async def test_a_store_that_is_not_the_keeper_may_still_append(self, bench: Bench) -> None:
        other = await bench.another()
        await bench.contract()
        await other.events.append([new_event("t")])
        await bench.route()
        await bench.end(Delivered())

    async def test_closing_twice_is_harmless(self, bench: Bench) -> None:
        await bench.store.close()
        await bench.store.close()


class TokensSuite(StoreSuite):
    async def test_a_token_is_known_by_its_hash_until_it_is_revoked(self, bench: Bench) -> None:
        tokens = bench.store.tokens
        await tokens.add("tok_1", "laptop", "operate", "hash1")
        assert await tokens.scope_of("hash1") == "operate"
        assert await tokens.scope_of("hash2") is None
        assert await tokens.revoke("tok_1") is True
        assert await tokens.revoke("tok_1") is False
        assert await tokens.scope_of("hash1") is None

    async def test_tokens_are_listed_without_their_hash(self, bench: Bench) -> None:
        tokens, now = bench.store.tokens, bench.clock.now_ms()
        await tokens.add("tok_2", "b", "read", "h2")
        await tokens.add("tok_1", "a", "admin", "h1")
        bench.clock.advance(1)
        await tokens.revoke("tok_2")
        assert await tokens.find("", 10) == [
            TokenRow("tok_1", "a", "admin", now, None),
            TokenRow("tok_2", "b", "read", now, now + 1000),
        ]
        assert [row.id for row in await tokens.find("", 1)] == ["tok_1"]
        assert [row.id for row in await tokens.find("tok_1", 1)] == ["tok_2"]

    async def test_revoking_what_is_not_there_is_false(self, bench: Bench) -> None:
        assert await bench.store.tokens.revoke("none") is False

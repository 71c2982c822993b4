"""API tokens: found by hash, listed without it, revocable."""

from __future__ import annotations

from holdfast.domain.scopes import TokenScope
from holdfast.store.roles.tokens import TokenRow
from holdfast.testing.suite.harness import Harness, StoreSuite


class TokensSuite(StoreSuite):
    async def test_a_token_is_known_by_its_hash_until_it_is_revoked(self, harness: Harness) -> None:
        tokens = harness.store.tokens
        await tokens.add("tok_1", "laptop", "operate", "hash1")
        assert await tokens.scope_of("hash1") == TokenScope("tok_1", frozenset({"operate"}))
        assert await tokens.scope_of("hash2") is None
        assert await tokens.revoke("tok_1") is True
        assert await tokens.revoke("tok_1") is False
        assert await tokens.scope_of("hash1") is None

    async def test_a_token_holds_several_scopes_and_ignores_those_of_other_versions(self, harness: Harness) -> None:
        await harness.store.tokens.add("tok_1", "agent", "read,message,fly", "hash1")
        assert await harness.store.tokens.scope_of("hash1") == TokenScope("tok_1", frozenset({"read", "message"}))

    async def test_tokens_are_listed_without_their_hash(self, harness: Harness) -> None:
        tokens, now = harness.store.tokens, harness.clock.now_ms()
        await tokens.add("tok_2", "b", "read", "h2")
        await tokens.add("tok_1", "a", "admin", "h1")
        harness.clock.advance(1)
        await tokens.revoke("tok_2")
        assert await tokens.find("", 10) == [
            TokenRow("tok_1", "a", "admin", now, None),
            TokenRow("tok_2", "b", "read", now, now + 1000),
        ]
        assert [row.id for row in await tokens.find("", 1)] == ["tok_1"]
        assert [row.id for row in await tokens.find("tok_1", 1)] == ["tok_2"]

    async def test_revoking_an_unknown_token_is_false(self, harness: Harness) -> None:
        assert await harness.store.tokens.revoke("none") is False

"""Verbs on API tokens: create, list, revoke. Only a hash of each token is stored."""

from __future__ import annotations

import hashlib

from holdfast.domain.errors import NotFound
from holdfast.domain.event import check_name
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.scopes import TokenScope, parse_scopes
from holdfast.domain.text import short_repr
from holdfast.operations.answers.page import Page, check_limit
from holdfast.operations.answers.tokens import CreatedToken, RevokedToken, TokenAnswer, token_answer
from holdfast.ports import Chance, Clock
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.page import PAGE_MAX
from holdfast.store.roles.tokens import Tokens


class TokenVerbs:
    def __init__(self, tokens: Tokens, clock: Clock, chance: Chance, by: Actor | None = None) -> None:
        self._tokens, self._clock, self._chance, self._by = tokens, clock, chance, by

    async def create(self, name: str, scope: str) -> CreatedToken:
        """Create a token. Its text appears in this answer and nowhere else: only its hash is stored.

        `scope`: one scope, or several separated by commas.
        """
        scope = ",".join(parse_scopes(scope))
        check_name(name, "name")
        id = make_id("tok", self._clock.now_ms(), self._chance.entropy(ENTROPY_BYTES))
        text = "hf_" + self._chance.entropy(32).hex()
        await self._tokens.add(id, name, scope, token_hash(text), by=self._by)
        return CreatedToken(id, name, scope, text)

    async def find(self, *, after: str | None = None, limit: int = PAGE_MAX) -> Page[TokenAnswer]:
        """Tokens ordered by id, starting after the id `after`."""
        rows = await self._tokens.find(after or "", check_limit(limit))
        return Page([token_answer(row) for row in rows], rows[-1].id if len(rows) == limit else None)

    async def revoke(self, id: str) -> RevokedToken:
        """Revoke a token. Requests with it are refused from now on."""
        if not await self._tokens.revoke(id, by=self._by):
            raise NotFound(f"there is no active token {short_repr(id)}")
        return RevokedToken(id)

    async def scope_of(self, text: str) -> TokenScope | None:
        """What the token with this text allows, or None if it is unknown or revoked."""
        return await self._tokens.scope_of(token_hash(text))


def token_hash(text: str) -> str:
    return hashlib.sha256(b"holdfast.token\n" + text.encode("utf-8", "replace")).hexdigest()

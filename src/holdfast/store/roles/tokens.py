"""Tokens: who may call the HTTP API. Only hashes are stored."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from holdfast.domain.scopes import TokenScope
from holdfast.store.roles.owners import Actor


class TokenRow(NamedTuple):
    """A token as it is listed, without its hash. `scope`: its scopes, separated by commas."""

    id: str
    name: str
    scope: str
    created_at_ms: int
    revoked_at_ms: int | None


class Tokens(Protocol):
    """The API tokens of a store."""

    async def add(self, id: str, name: str, scope: str, hash: str, *, by: Actor | None = None) -> None:
        """Store a token by the hash of its secret."""

    async def scope_of(self, hash: str) -> TokenScope | None:
        """What the token with this hash allows; None: unknown or revoked."""

    async def find(self, after: str, limit: int) -> list[TokenRow]:
        """Tokens by id, after this one."""

    async def revoke(self, id: str, *, by: Actor | None = None) -> bool:
        """Revoke a token. False: there is no such token, or it was revoked before."""

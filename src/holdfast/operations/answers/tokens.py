"""Answers about API tokens."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.domain.event import iso_time
from holdfast.operations.answers.fields import Time, time_or_none
from holdfast.store.roles.tokens import TokenRow


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """One token, without its text. `scope`: its scopes, separated by commas."""

    id: str
    name: str
    scope: str
    created_at: Time
    revoked_at: Time | None


@dataclass(frozen=True, slots=True)
class CreatedToken:
    """A new token. `token` is its text, which is shown this once."""

    id: str
    name: str
    scope: str
    token: str


@dataclass(frozen=True, slots=True)
class RevokedToken:
    """The id of a token that was revoked."""

    revoked: str


def token_answer(row: TokenRow) -> TokenAnswer:
    return TokenAnswer(row.id, row.name, row.scope, iso_time(row.created_at_ms), time_or_none(row.revoked_at_ms))

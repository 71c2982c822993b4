"""Scopes of API tokens: which operations a caller may use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.domain.errors import BadInput
from holdfast.domain.text import short_repr

SCOPES = ("read", "append", "operate", "message", "admin")
IMPLIED = {"operate": frozenset({"read", "append"}), "admin": frozenset(SCOPES)}
"""`message` puts text into an agent's session, where it can run tools; only `admin` implies it."""


class TokenScope(NamedTuple):
    """A token that is in force: its id, for receipts, and what its holder may do."""

    id: str
    scopes: frozenset[str]

    def allows(self, needed: str) -> bool:
        """
        >>> TokenScope("tok_1", frozenset({"operate"})).allows("append")
        True
        >>> TokenScope("tok_1", frozenset({"operate"})).allows("message")
        False
        """
        return needed in self.scopes or any(needed in IMPLIED.get(scope, ()) for scope in self.scopes)


ADMIN = TokenScope("admin", frozenset({"admin"}))
"""The token in the home folder. It is no row of a store."""


def parse_scopes(text: str) -> tuple[str, ...]:
    """The scopes of a comma-separated list, each once, without those that another one implies.

    >>> parse_scopes("message, operate,read")
    ('operate', 'message')
    """
    words = {word.strip() for word in text.split(",")}
    for word in sorted(words - set(SCOPES)):
        raise BadInput(f"scope {short_repr(word)} is unknown; use {', '.join(SCOPES)}, or several with commas")
    implied = {other for word in words for other in IMPLIED.get(word, ()) if other != word}
    return tuple(word for word in SCOPES if word in words - implied)


def known_scopes(text: str) -> frozenset[str]:
    """The scopes of a stored token. A scope that only another version knows grants nothing here."""
    return frozenset(text.split(",")) & frozenset(SCOPES)


def shown_scopes(scopes: Iterable[str]) -> str:
    return ",".join(word for word in SCOPES if word in set(scopes))

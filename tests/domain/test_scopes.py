"""Scopes: which operations a token allows."""

from __future__ import annotations

import pytest

from holdfast.domain.errors import BadInput
from holdfast.domain.scopes import SCOPES, TokenScope, known_scopes, parse_scopes


@pytest.mark.parametrize(
    ("held", "allowed"),
    [
        ("read", {"read"}),
        ("append", {"append"}),
        ("operate", {"read", "append", "operate"}),
        ("message", {"message"}),
        ("admin", set(SCOPES)),
        ("read,message", {"read", "message"}),
    ],
)
def test_only_operate_and_admin_imply_others(held: str, allowed: set[str]) -> None:
    token = TokenScope("tok_1", known_scopes(held))
    assert {scope for scope in SCOPES if token.allows(scope)} == allowed


@pytest.mark.parametrize("text", ["", "king", "read,", "read,,append", "READ"])
def test_an_unknown_scope_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="use read, append, operate, message, admin"):
        parse_scopes(text)


def test_a_scope_of_another_version_grants_nothing() -> None:
    assert known_scopes("fly") == frozenset()
    assert not TokenScope("tok_1", known_scopes("fly")).allows("read")

"""Tokens with which agent CLIs use the MCP server: one for each CLI, in a file of the home folder."""

from __future__ import annotations

from contextlib import suppress

from holdfast.domain.errors import NotFound
from holdfast.home import Home, read_secret, write_secret
from holdfast.operations import local


def ensure_token(home: Home, agent: str, scope: str) -> None:
    """Create the token of a CLI, unless it has one with exactly these scopes. Another one is revoked.

    The file holds the token's text, id and scopes.
    """
    words = (read_secret(home.agent_token(agent)) or "").split()
    if len(words) == 3:
        _, id, granted = words
        if granted == scope and _is_active(id):
            return
        _revoke(id)
    home.make()
    local.migrate(None, None)  # before the first start of a daemon there is no store yet
    made = local.create_token(None, f"mcp-{agent}", scope)
    write_secret(home.agent_token(agent), f"{made.token} {made.id} {made.scope}")


def drop_token(home: Home, agent: str) -> None:
    """Revoke the token of a CLI and remove its file."""
    path = home.agent_token(agent)
    words = (read_secret(path) or "").split()
    if len(words) == 3:
        _revoke(words[1])
    path.unlink(missing_ok=True)


def _revoke(id: str) -> None:
    with suppress(NotFound):  # revoked by hand, or the store is another one now
        local.revoke_token(None, id)


def _is_active(id: str) -> bool:
    try:
        page = local.list_tokens(None, id[:-1], 1000)
    except NotFound:
        return False
    return any(token.id == id and token.revoked_at is None for token in page.items)

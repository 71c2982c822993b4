"""Serves a store to one agent over standard input and output, without a daemon."""

from __future__ import annotations

from holdfast.domain.scopes import TokenScope
from holdfast.operations.verbs import Operations
from holdfast.surfaces.mcp.server import Caller, Context, McpServer


async def serve_store(operations: Operations, *, write: bool, actor: str) -> None:
    """A user who can open a store owns it, so there is no token. Without `write` only reading tools are listed."""
    token = TokenScope(actor, frozenset({"admin"} if write else {"read"}))

    def caller(context: Context) -> Caller:
        return Caller(operations, token, f"mcp:{actor}")

    await McpServer(caller).serve_stdio()

"""`/mcp` of the daemon. The SDK is imported with the first request, in a thread: it takes more than a second."""

from __future__ import annotations

import asyncio
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.domain.extras import install_command
from holdfast.domain.scopes import TokenScope
from holdfast.ports import in_thread
from holdfast.surfaces.rest.problem import problem

if TYPE_CHECKING:
    from holdfast.surfaces.mcp.server import Caller, Context, McpServer

PATHS = ("/mcp", "/mcp/")
"""Both: clients do not follow the redirect of a POST."""
MISSING = f"the MCP server needs a part that is not installed: {install_command('mcp')}"


class McpEndpoint:
    """Answers MCP requests. The gate before it has checked Host, Origin and token."""

    def __init__(self) -> None:
        self._server: McpServer | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, request: Request) -> ASGIApp:
        server = await self._load()
        if server is None:
            return problem(503, "MCP is not installed", MISSING)
        return _Answer(server, request.app.state.body_max_bytes)

    async def _load(self) -> McpServer | None:
        async with self._loading:
            if self._server is None and find_spec("mcp") is not None:
                module = await in_thread("files", lambda: import_module("holdfast.surfaces.mcp.server"))
                self._server = module.McpServer(_caller)
            return self._server


class _Answer:
    def __init__(self, server: McpServer, body_max_bytes: int) -> None:
        self._server, self._body_max_bytes = server, body_max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._server.handle(scope, receive, send, self._body_max_bytes)


def _caller(context: Context) -> Caller:
    from holdfast.surfaces.mcp.server import Caller

    request = context.request
    assert isinstance(request, Request)
    token: TokenScope = request.scope["holdfast.scope"]
    return Caller(request.app.state.operations, token, f"mcp:{token.id}")

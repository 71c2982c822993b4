"""The official MCP client over both transports, against a real daemon."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from daemon import Daemon


@asynccontextmanager
async def over_http(
    daemon: Daemon, token: str | None = None, path: str = "/mcp", mode: str = "auto"
) -> AsyncIterator[Client]:
    """A client of the daemon's `/mcp`. `mode`: the protocol, as the SDK names it."""
    headers = {"Authorization": f"Bearer {token or daemon.token}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(daemon.url + path, http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(
    daemon: Daemon, *arguments: str, env: Mapping[str, str] | None = None, mode: str = "auto"
) -> AsyncIterator[Client]:
    """A client of `holdfast mcp …`, which it starts."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "holdfast", "mcp", *arguments], env={**daemon.env, **(env or {})}
    )
    async with Client(command, mode=mode) as client:
        yield client


async def call(client: Client, name: str, **arguments: Any) -> Any:
    """The structured answer of a tool. Its text holds the same."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content


async def refused(client: Client, name: str, **arguments: Any) -> str:
    """The text of a tool's error."""
    result = await client.call_tool(name, arguments)
    assert result.is_error, result.structured_content
    return result.content[0].text

"""Slow senders, and too many of them: each gets an error, and others are not delayed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.config.config import load_config
from holdfast.daemon import serve as serve_module
from holdfast.daemon.runtime import Runtime
from holdfast.daemon.serve import Server, bind
from holdfast.operations.answers.encode import encode
from holdfast.store.open import open_store
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.http_limits import LimitedConnection
from holdfast.surfaces.rest.request_filter import BearerTokens
from rawhttp import head, post

WAIT_S = 60.0


@pytest.fixture
async def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """A served daemon with short timeouts."""
    monkeypatch.setattr(LimitedConnection, "head_s", 1.0)
    monkeypatch.setattr(LimitedConnection, "body_s", 1.0)
    monkeypatch.setattr(serve_module, "CONNECTIONS_MAX", 20)
    runtime = Runtime(open_store(f"sqlite:///{tmp_path}/h.db", keep=True), load_config(None), None)
    await runtime.start()
    listener = bind("127.0.0.1", 0)
    tokens = BearerTokens("t", runtime.operations.tokens.scope_of)
    server = Server(build_app(runtime.operations, tokens, {"127.0.0.1"}, 10_000), listener)
    await server.start()
    yield listener.getsockname()[1]
    assert [
        item["type"] for item in encode(await runtime.operations.events.find())["items"] if item["type"] == "slow.x"
    ] == []
    await server.stop()
    await runtime.stop()


async def answer_to(port: int, sent: bytes) -> bytes:
    """Send bytes and then nothing. Returns the response until the other side closes."""
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def accepts(port: int) -> bool:
    return b" 201 " in await answer_to(port, post("/api/events", "t", b'{"type":"good.x"}'))


async def test_a_head_that_stops_half_way_is_408(port: int) -> None:
    got = await answer_to(port, b"POST /api/events HTTP/1.1\r\nHost: 127.")
    assert got.startswith(b"HTTP/1.1 408 ")
    assert b"application/problem+json" in got
    assert await accepts(port)


async def test_a_head_that_drips_is_408(port: int) -> None:
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = asyncio.create_task(reader.readuntil(b"\r\n"))
        for byte in head("GET", "/healthz", None):
            if answer.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)
        assert (await answer).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_a_body_that_stops_half_way_is_408_and_not_accepted(port: int) -> None:
    sent = head("POST", "/api/events", "t", content_length="100") + b'{"type":"slow.x"'
    got = await answer_to(port, sent)
    assert got.startswith(b"HTTP/1.1 408 ")
    assert b"nothing was accepted" in got
    assert await accepts(port)


async def test_a_silent_connection_is_closed(port: int) -> None:
    assert await answer_to(port, b"") == b""


async def test_a_second_request_on_a_connection_has_its_own_timeout(port: int) -> None:
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(head("GET", "/healthz", None))
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 ")
            await asyncio.sleep(0.5)
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_connections_above_the_limit_get_503_until_others_close(port: int) -> None:
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
    async with asyncio.timeout(WAIT_S):
        got = await answer_to(port, b"")
        assert got.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in got
        while not await accepts(port):  # idle connections time out
            await asyncio.sleep(0.05)
    for _, writer in idle:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

"""Requests over a connection that is kept: nothing waits for a delayed acknowledgement."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.daemon.serve import Server, bind
from holdfast.store.open import open_store
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.joined_writes import JoinedWrites
from holdfast.surfaces.rest.request_filter import BearerTokens
from rawhttp import head

WAIT_S = 60.0


@pytest.fixture
async def listener(tmp_path: Path) -> AsyncIterator[socket.socket]:
    runtime = Runtime(open_store(f"sqlite:///{tmp_path}/h.db", keep=True), load_config(None), None)
    await runtime.start()
    listener = bind("127.0.0.1", 0)
    tokens = BearerTokens("t", runtime.operations.tokens.scope_of)
    server = Server(build_app(runtime.operations, tokens, {"127.0.0.1"}, 10_000), listener)
    await server.start()
    yield listener
    await server.stop()
    await runtime.stop()


def append(body: bytes) -> bytes:
    return head("POST", "/api/events", "t", content_length=str(len(body))) + body


async def read_answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    first = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in first.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return first, await reader.readexactly(int(length.partition(b":")[2]))


async def test_accepted_connections_send_small_packets_at_once(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    connect = JoinedWrites.__init__

    def note(self: JoinedWrites, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        made.append(transport.get_extra_info("socket"))
        connect(self, transport, loop)

    monkeypatch.setattr(JoinedWrites, "__init__", note)
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(append(b'{"type": "t"}'))
        await read_answer(reader)
    assert made[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    writer.close()


async def test_many_requests_over_one_connection_are_answered_in_order(listener: socket.socket) -> None:
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        for number in range(20):
            writer.write(append(b'{"type": "t", "stream": "s"}'))
            first, body = await read_answer(reader)
            assert first.startswith(b"HTTP/1.1 201 ")
            assert f'"seq":{number + 1},'.encode() in body
    writer.close()


@pytest.mark.parametrize(("host", "status"), [(b"evil.example", b"421"), (b"127.0.0.1", b"200")])
async def test_the_host_in_an_absolute_request_line_counts(listener: socket.socket, host: bytes, status: bytes) -> None:
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"GET http://" + host + b":80/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        first, _ = await read_answer(reader)
    assert first.startswith(b"HTTP/1.1 " + status)
    writer.close()


class Recorder:
    """A transport that only notes what it is given."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True


async def test_head_and_body_of_an_answer_are_written_as_one() -> None:
    under = Recorder()
    writes = JoinedWrites(under, asyncio.get_running_loop())  # type: ignore[arg-type]
    writes.write(b"head ")
    writes.write(b"body")
    writes.flush()
    assert under.written == [b"head body"]


async def test_a_head_whose_body_comes_later_leaves_at_the_end_of_the_step() -> None:
    under = Recorder()
    writes = JoinedWrites(under, asyncio.get_running_loop())  # type: ignore[arg-type]
    writes.write(b"head of a stream")
    await asyncio.sleep(0)
    assert under.written == [b"head of a stream"]
    writes.write(b"last")
    writes.close()
    assert (under.written, under.closed) == ([b"head of a stream", b"last"], True)


async def _bare(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.mark.parametrize("steps", range(1, 6))
async def test_a_connection_that_is_accepted_while_the_server_stops_is_not_kept(
    steps: int, caplog: pytest.LogCaptureFixture
) -> None:
    listener = bind("127.0.0.1", 0)
    server = Server(_bare, listener)
    await server.start()
    with socket.create_connection(listener.getsockname(), WAIT_S) as client:
        for _ in range(steps):
            await asyncio.sleep(0)
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        client.sendall(head("GET", "/", "t") * 2)
        async with asyncio.timeout(WAIT_S):
            await stopping
        client.settimeout(WAIT_S)
        answer = b""
        try:
            while data := client.recv(1000):
                answer += data
        except ConnectionResetError:
            pass
        assert answer.count(b"HTTP/1.1") <= 1
        assert "graceful shutdown exceeded" not in caplog.text

"""The network of a campaign: cut, healed late, and reset."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from holdfast.proof.kills.processes import Companion


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """A server that sends every line back."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.fixture
async def network(echo: int) -> AsyncIterator[tuple[Companion, int]]:
    companion = await asyncio.to_thread(Companion, "proxy", "--port", str(echo))
    port = int(await asyncio.to_thread(companion.first_line))
    yield companion, port
    await asyncio.to_thread(companion.close, 10)


async def silent(reader: asyncio.StreamReader) -> bool:
    """Whether nothing arrives for a moment."""
    try:
        await asyncio.wait_for(reader.readexactly(1), 0.3)
    except TimeoutError:
        return True
    return False


@pytest.mark.parametrize("direction", ["both", "up", "down"])
async def test_what_was_sent_during_a_cut_arrives_late(network: tuple[Companion, int], direction: str) -> None:
    companion, port = network
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(60):
        writer.write(b"before\n")
        assert await reader.readline() == b"before\n"
        companion.send(f"cut {direction}")
        await asyncio.sleep(0.3)  # the proxy reads the line
        writer.write(b"meanwhile\n")
        assert await silent(reader)
        companion.send("heal")
        assert await reader.readline() == b"meanwhile\n"
    writer.close()


async def test_a_reset_breaks_connections_and_new_ones_work(network: tuple[Companion, int]) -> None:
    companion, port = network
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"before\n")
        assert await reader.readline() == b"before\n"
        companion.send("cut both")
        companion.send("reset")
        with contextlib.suppress(ConnectionError):
            assert await reader.read(100) == b""
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"again\n")
        assert await reader.readline() == b"again\n"
        writer.close()

"""Misbehaving receivers: servers that send raw bytes, certificates of any age, false DNS answers."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def close_server(server: asyncio.Server) -> None:
    """Stop accepting. A connection accepted just now gets the loop turns it needs to close its socket."""
    server.close()
    for _ in range(4):
        await asyncio.sleep(0)


@asynccontextmanager
async def raw_server(
    talk: Talk, scheme: str = "http", head: bool = True, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """A server of raw bytes: `talk` runs after the request's head, or at once without `head`."""
    tasks: set[asyncio.Task[Any] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            if head:
                await reader.readuntil(b"\r\n\r\n")
            await talk(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    finally:
        await close_server(server)
        found = [task for task in tasks if task is not None]
        for task in found:
            task.cancel()
        await asyncio.gather(*found, return_exceptions=True)


def saying(*chunks: bytes, then: Talk | None = None) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for chunk in chunks:
            writer.write(chunk)
        await writer.drain()
        if then is not None:
            await then(reader, writer)

    return talk


def pouring(chunk: bytes, every_s: float = 0.0) -> Talk:
    """Send the same bytes without end, as fast as possible or one at a time."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(every_s)

    return talk


async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """RST instead of FIN."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def answering_dns(monkeypatch: pytest.MonkeyPatch, *rounds: Sequence[str] | BaseException) -> list[str]:
    """Make DNS return these answers, one list per query. Returns the queries."""
    asked: list[str] = []

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        answer = rounds[min(len(asked), len(rounds)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]

    monkeypatch.setattr("holdfast.net.guard.getaddrinfo", getaddrinfo)
    return asked


def self_signed(folder: Path, host: str = "hook.test", from_days: int = -1, to_days: int = 1) -> tuple[Path, Path]:
    """A certificate for a host, valid from and until the given days from now, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(days=from_days))
        .not_valid_after(now + dt.timedelta(days=to_days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = folder / f"{host}{from_days}.pem", folder / f"{host}{from_days}.key"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    key_path.write_bytes(key.private_bytes(*form))
    return cert_path, key_path

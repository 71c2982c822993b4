"""A forward proxy on loopback that supports CONNECT and resolves names from its own table."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple, Self

from receivers import close_server

OK = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Asked(NamedTuple):
    """One request to the proxy: its first line, and its headers in lower case."""

    line: str
    headers: Mapping[str, str]


class ConnectProxy:
    """Use as `async with ConnectProxy({"hook.test": sink.port}) as proxy`: the name maps to this loopback port.

    `answer` is sent instead of the usual answer; then the connection is closed, or kept open with `hangs`.
    `login` is the required user and password, as "user:password".
    """

    def __init__(
        self,
        names: Mapping[str, int] | None = None,
        *,
        login: str | None = None,
        tls: ssl.SSLContext | None = None,
        answer: bytes = OK,
        hangs: bool = False,
    ) -> None:
        self._names, self._tls = names or {}, tls
        self.login, self._answer, self._hangs = login, answer, hangs
        self.asked: list[Asked] = []
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        await close_server(self._server)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._talk(reader, writer)
        writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").rstrip("\r\n").split("\r\n")
        headers = {name.lower(): value for name, _, value in (text.partition(": ") for text in lines)}
        self.asked.append(Asked(line, headers))
        if self.login is not None:
            expected = "Basic " + b64encode(self.login.encode()).decode()
            if headers.get("proxy-authorization") != expected:
                writer.write(b"HTTP/1.1 407 Login\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nno")
                return await writer.drain()
        writer.write(self._answer)
        await writer.drain()
        if self._hangs:
            await asyncio.Event().wait()
        if not self._answer.startswith(OK):
            return None
        host, _, port = line.split()[1].rpartition(":")
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._names.get(host, int(port)))
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            far_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    raise ConnectionResetError("one side has ended")

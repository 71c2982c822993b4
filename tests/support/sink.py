"""A real webhook receiver on a free loopback port: it sends chosen answers and records its requests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Self

from aiohttp import web

Answer = int | tuple[int, Mapping[str, str], bytes]
Script = Sequence[Answer] | Callable[[web.Request], Awaitable[web.StreamResponse]]


class Received(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: bytes


class Sink:
    """Use as `async with Sink() as sink`. Answers are used in order; after the last it answers 200.

    >>> sink = Sink()
    >>> sink.answers = [503, (429, {"Retry-After": "7"}, b"slow down"), 200]
    """

    def __init__(self, answers: Script = (), tls: ssl.SSLContext | None = None) -> None:
        self.answers: Script = answers
        self.received: list[Received] = []
        self.url = ""
        self.port = 0
        self._tls = tls
        self._arrival = asyncio.Condition()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=4 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        self.port = self._runner.addresses[0][1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/hook"
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._runner.cleanup()

    async def wait_for(self, count: int, timeout: float = 60.0) -> list[Received]:
        """Wait until so many requests have arrived."""
        async with asyncio.timeout(timeout), self._arrival:
            await self._arrival.wait_for(lambda: len(self.received) >= count)
        return self.received

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        turn = len(self.received)
        self.received.append(Received(request.path_qs, request.headers.copy(), body))
        async with self._arrival:
            self._arrival.notify_all()
        if callable(self.answers):
            return await self.answers(request)
        answer = self.answers[turn] if turn < len(self.answers) else 200
        status, headers, text = (answer, {}, b"") if isinstance(answer, int) else answer
        return web.Response(status=status, headers=headers, body=text)

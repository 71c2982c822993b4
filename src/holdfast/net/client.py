"""The HTTP client: POST requests over kept connections, and single GET requests.

It keeps no cookies and follows no redirects. A general HTTP client costs several times as much per request
(docs/decisions/0028).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache, partial

from holdfast.net.answer import Answer, RequestError
from holdfast.net.connection import Connection
from holdfast.net.dialer import Dialer
from holdfast.net.guard import Guard
from holdfast.net.proxy import DIRECT, Proxies
from holdfast.net.route import PoolKey, Route, read_route, request_bytes
from holdfast.net.timeouts import TimedOut, Timeout, Timeouts

KEEPALIVE_S = 15.0
IDLE_MAX = 1000
ROUTES_MAX = 1024
DISTRUST_S = 300.0  # how long no connection is kept to a receiver that sent data without a request
DISTRUSTED_MAX = 1000


class Client:
    """Sends POST requests. Fills in the `Answer` as data arrives, so that a cancelled request leaves what it got."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext | None, connect_s: float, proxies: Proxies = DIRECT) -> None:
        self._guard, self._proxies = guard, proxies
        self._dialer = Dialer(guard, tls, connect_s)
        self._timeouts = Timeouts()
        self._idle: defaultdict[PoolKey, list[Connection]] = defaultdict(list)
        self._idle_count = 0
        self._distrusted: dict[PoolKey, float] = {}
        self._closing: asyncio.TimerHandle | None = None
        self.route = lru_cache(ROUTES_MAX)(self._plan)

    async def start(self) -> None:
        """Load the system's certificates without blocking the event loop."""
        await self._dialer.start()

    async def close(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
        kept, self._idle = self._idle, defaultdict(list)
        for connections in kept.values():
            for connection in connections:
                connection.close()

    def timeout(self, answer: Answer, total_s: float, silence_s: float) -> Timeout:
        """A context manager that limits the time for one answer: in total, and between two signs of progress."""
        answer.timeout = self._timeouts.start(total_s, silence_s)
        return answer.timeout

    async def post(
        self, route: Route, headers: Mapping[str, str], body: bytes, answer: Answer, *, reuse: bool = True
    ) -> None:
        """Send one request, over a kept connection if there is one and `reuse` allows it."""
        request = request_bytes(route, headers, body)
        connection = self._kept(route) if reuse else None
        if connection is None:
            connection = await self._dialer.dial(route, answer)
            connection.on_stray = partial(self._distrust, route.pool)
            answer.restart_silence()  # connecting had a limit of its own
        await connection.post(request, answer)
        if connection.is_kept:
            self._keep(route, connection)

    async def get(self, url: str, headers: Mapping[str, str], answer: Answer, *, trusted: bool) -> None:
        """Send a GET request over a connection of its own."""
        route = self.route(url, trusted)
        route = route._replace(start=route.start.replace("POST ", "GET ", 1))
        await self.post(route, headers, b"", answer, reuse=False)

    def describe(self, error: Exception, answer: Answer) -> str:
        """An error as a sentence that quotes no library message, which could hold a URL."""
        match error:
            case RequestError():
                return str(error)
            case TimedOut(silent=True) if answer.status is None:
                return f"no answer within {error.limit_s:g} s"
            case TimedOut(silent=True):
                return f"answered {answer.status}, then nothing more arrived for {error.limit_s:g} s"
            case TimedOut():
                return f"no complete answer within {error.limit_s:g} s"
            case ssl.SSLError():
                return f"TLS failed: {error.reason or 'unknown reason'}"
            case _:
                return f"unexpected error: {type(error).__name__}"

    def _plan(self, url: str, trusted: bool) -> Route:
        route = read_route(url, trusted, self._proxies)
        if route.target.address is not None or route.target.is_localhost:
            self._guard.check_unresolved(route.target, trusted=trusted)
        return route

    # Kept connections

    def _kept(self, route: Route) -> Connection | None:
        """The connection used last, so that surplus ones stay idle and are closed."""
        kept = self._idle.get(route.pool)
        while kept:
            connection = kept.pop()
            self._idle_count -= 1
            if connection.is_free:
                return connection
            connection.close()
        return None

    def _keep(self, route: Route, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        if self._idle_count >= IDLE_MAX or self._distrusted.get(route.pool, 0.0) > loop.time():
            connection.close()
            return
        connection.idle_since_s = loop.time()
        self._idle[route.pool].append(connection)
        self._idle_count += 1
        if self._closing is None:
            self._closing = loop.call_later(KEEPALIVE_S, self._close_idle, loop)

    def _distrust(self, pool: PoolKey) -> None:
        """Keep no connections to a receiver that sent unrequested data: more of it may look like an answer."""
        if len(self._distrusted) >= DISTRUSTED_MAX:
            self._distrusted.clear()
        self._distrusted[pool] = asyncio.get_running_loop().time() + DISTRUST_S
        for connection in self._idle.pop(pool, []):
            self._idle_count -= 1
            connection.close()

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that were idle for `KEEPALIVE_S`, before the receiver does."""
        since_s = loop.time() - KEEPALIVE_S
        recent: defaultdict[PoolKey, list[Connection]] = defaultdict(list)
        for pool, connections in self._idle.items():
            for connection in connections:
                if connection.idle_since_s > since_s and connection.is_free:
                    recent[pool].append(connection)
                else:
                    connection.close()
        self._idle, self._idle_count = recent, sum(map(len, recent.values()))
        self._closing = loop.call_later(KEEPALIVE_S / 3, self._close_idle, loop) if recent else None

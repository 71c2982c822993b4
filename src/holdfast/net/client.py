"""The HTTP client of the webhook deliverer: it makes POST requests, over connections that it keeps.

It keeps no cookies and follows no redirect. It needs so little of HTTP that a general client would cost several times
as much (docs/decisions/0028).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache, partial

from holdfast.net.answer import Answer, Fault
from holdfast.net.connection import Connection
from holdfast.net.dialer import Dialer
from holdfast.net.guard import Guard
from holdfast.net.proxy import DIRECT, Proxies
from holdfast.net.route import Pool, Route, read_route, request_bytes
from holdfast.net.timeouts import TimedOut, Timeout, Timeouts

KEEPALIVE_S = 15.0
IDLE_MAX = 1000
ROUTES_MAX = 1024
DISTRUST_S = 300.0
DISTRUSTED_MAX = 1000


class Client:
    """Makes one POST, and notes in the `Answer` what arrives as it arrives."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext | None, connect_s: float, proxies: Proxies = DIRECT) -> None:
        self._guard, self._proxies = guard, proxies
        self._dialer = Dialer(guard, tls, connect_s)
        self._timeouts = Timeouts()
        self._idle: defaultdict[Pool, list[Connection]] = defaultdict(list)
        self._idle_count = 0
        self._distrusted: dict[Pool, float] = {}
        self._closing: asyncio.TimerHandle | None = None
        self.route = lru_cache(ROUTES_MAX)(self._plan)

    async def start(self) -> None:
        """Read the machine's certificates without blocking the event loop."""
        await self._dialer.start()

    async def close(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
        kept, self._idle = self._idle, defaultdict(list)
        for connections in kept.values():
            for connection in connections:
                connection.close()

    def timeout(self, answer: Answer, total_s: float, silence_s: float) -> Timeout:
        """The time limits of everything that is done for an answer; a context manager."""
        answer.timeout = self._timeouts.start(total_s, silence_s)
        return answer.timeout

    async def post(
        self, route: Route, headers: Mapping[str, str], body: bytes, answer: Answer, *, reuse: bool = True
    ) -> None:
        """Over a kept connection if there is one and `reuse` allows it."""
        request = request_bytes(route, headers, body)
        connection = self._kept(route) if reuse else None
        if connection is None:
            connection = await self._dialer.dial(route, answer)
            connection.on_stray = partial(self._distrust, route.pool)
            answer.restart_silence()  # connecting had a limit of its own
        await connection.post(request, answer)
        if connection.is_kept:
            self._keep(route, connection)

    def describe(self, error: Exception, answer: Answer) -> str:
        """An error in our own words."""
        match error:
            case Fault():
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
        """The one used last, so that those that are not needed any more stay idle and are closed."""
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

    def _distrust(self, pool: Pool) -> None:
        """Keep no connection to a receiver that sent what nobody asked for: the next stray may look like an answer."""
        if len(self._distrusted) >= DISTRUSTED_MAX:
            self._distrusted.clear()
        self._distrusted[pool] = asyncio.get_running_loop().time() + DISTRUST_S
        for connection in self._idle.pop(pool, []):
            self._idle_count -= 1
            connection.close()

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what was not used for a while, before the receiver does."""
        since_s = loop.time() - KEEPALIVE_S
        young: defaultdict[Pool, list[Connection]] = defaultdict(list)
        for pool, connections in self._idle.items():
            for connection in connections:
                if connection.idle_since_s > since_s and connection.is_free:
                    young[pool].append(connection)
                else:
                    connection.close()
        self._idle, self._idle_count = young, sum(map(len, young.values()))
        self._closing = loop.call_later(KEEPALIVE_S / 3, self._close_idle, loop) if young else None

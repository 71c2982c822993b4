"""The HTTP client of the webhook deliverer: routes, connections that are kept, and addresses that were vetted.

The address that was vetted is the one that is dialled. It uses no proxy, keeps no cookies and follows no redirect. What
it needs of HTTP is so little that a general client would cost several times as much (docs/decisions/0028).
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohappyeyeballs

from holdfast.egress.connection import Connection, Fault
from holdfast.egress.exchange import Exchange
from holdfast.egress.guard import Guard, Target, read_target
from holdfast.egress.patience import OutOfPatienceError, Patience, Wait

KEEPALIVE_S = 15.0
IDLE_MAX = 1000
ROUTES_MAX = 1024
STAGGER_S = 0.25  # then the next address of a name is tried beside the one that does not answer


class Rule(NamedTuple):
    """How strictly addresses are judged: over http:// they must be listed; trusted ones nearly always pass."""

    plain: bool
    trusted: bool


class Route(NamedTuple):
    """A URL, read and judged as far as that needs no DNS; `place` is the host and port that requests take turns at."""

    start: str
    target: Target
    place: str
    rule: Rule


class Client:
    """Makes one POST, and notes what it sees in the exchange as it sees it."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext | None, connect_s: float) -> None:
        self._guard, self._tls, self._connect_s = guard, tls, connect_s
        self._patience = Patience()
        # Rules do not share connections: a trusted one must not serve an untrusted.
        self._idle: defaultdict[tuple[str, Rule], list[Connection]] = defaultdict(list)
        self._idle_count = 0
        self._tidying: asyncio.TimerHandle | None = None
        self.route = lru_cache(ROUTES_MAX)(self._plan)

    async def start(self) -> None:
        """Read the machine's certificates without holding up the event loop."""
        if self._tls is None:
            self._tls = await asyncio.to_thread(_trusting_the_usual)

    async def close(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()
        kept, self._idle = self._idle, defaultdict(list)
        for connections in kept.values():
            for connection in connections:
                connection.close()

    def patience(self, exchange: Exchange) -> Wait:
        """Around all that is done for an exchange."""
        exchange.wait = self._patience.begin(exchange.patience_s, exchange.silence_s)
        return exchange.wait

    async def post(
        self, route: Route, headers: Mapping[str, str], body: bytes, exchange: Exchange, *, anew: bool = False
    ) -> None:
        """Over a connection that was kept if there is one, unless it is to be made `anew`."""
        request = _request(route, headers, body)
        connection = (None if anew else self._kept(route)) or await self._dial(route, exchange)
        exchange.heard()  # making a connection had a time of its own
        await connection.post(request, exchange)
        if connection.is_free:
            self._keep(route, connection)

    def describe(self, error: Exception, exchange: Exchange) -> str:
        """A fault in our own words."""
        match error:
            case Fault():
                return str(error)
            case OutOfPatienceError(silent=True) if exchange.status is None:
                return f"no answer within {exchange.silence_s:g} s"
            case OutOfPatienceError(silent=True):
                return f"nothing came for {exchange.silence_s:g} s"
            case OutOfPatienceError():
                return f"no complete answer within {exchange.patience_s:g} s"
            case _:
                return f"unexpected fault: {type(error).__name__}"

    def _plan(self, url: str, trusted: bool) -> Route:
        target = read_target(url)
        rule = Rule(target.plain, trusted)
        if target.address is not None or target.is_localhost:
            self._guard.check_url(url, trusted=trusted)
        # The guard's reading of the host, so that it and the client cannot differ about what the URL names.
        host = f"[{target.host}]" if ":" in target.host else target.host
        named = host if target.port == (80 if target.plain else 443) else f"{host}:{target.port}"
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return Route(f"POST {path} HTTP/1.1\r\nHost: {named}\r\n", target, f"{host}:{target.port}", rule)

    # Connections that are kept

    def _kept(self, route: Route) -> Connection | None:
        """The one used last: of those that are not needed any more, the others grow old enough to be hung up."""
        kept = self._idle.get((route.place, route.rule))
        while kept:
            connection = kept.pop()
            self._idle_count -= 1
            if connection.is_free:
                return connection
        return None

    def _keep(self, route: Route, connection: Connection) -> None:
        if self._idle_count >= IDLE_MAX:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since_s = loop.time()
        self._idle[route.place, route.rule].append(connection)
        self._idle_count += 1
        if self._tidying is None:
            self._tidying = loop.call_later(KEEPALIVE_S, self._tidy, loop)

    def _tidy(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hang up where nothing was sent for a while, before the receiver does."""
        since_s = loop.time() - KEEPALIVE_S
        young: defaultdict[tuple[str, Rule], list[Connection]] = defaultdict(list)
        for key, connections in self._idle.items():
            for connection in connections:
                if connection.is_free and connection.idle_since_s > since_s:
                    young[key].append(connection)
                else:
                    connection.close()
        self._idle, self._idle_count = young, sum(map(len, young.values()))
        self._tidying = loop.call_later(KEEPALIVE_S / 3, self._tidy, loop) if young else None

    # New ones

    async def _dial(self, route: Route, exchange: Exchange) -> Connection:
        target, (plain, trusted) = route.target, route.rule
        if target.address is not None:
            addresses = [target.address]
            self._guard.vet(addresses, port=target.port, plain=plain, trusted=trusted)
        else:
            try:
                addresses = await self._guard.resolve(target.host, target.port, plain=plain, trusted=trusted)
            except OSError as error:
                raise Fault(f"the host's name was not found: {error.strerror or 'no answer'}") from None
        if not plain:
            await self.start()
        exchange.dialled = True
        exchange.heard(self._connect_s)
        try:
            async with asyncio.timeout(self._connect_s) as limit:
                return await self._connect(target, addresses)
        except ssl.SSLCertVerificationError as error:
            raise Fault(f"TLS: the certificate is not valid: {error.verify_message or type(error).__name__}") from None
        except ssl.SSLError as error:
            raise Fault(f"TLS failed: {error.reason or 'the handshake broke off'}") from None
        except OSError as error:
            if limit.expired():
                raise Fault(f"no connection within {self._connect_s:g} s") from None
            # Of one address, or of several that fail alike, asyncio tells only which; the number says why.
            why = os.strerror(error.errno) if error.errno else str(error)
            raise Fault(f"could not connect: {why or type(error).__name__}") from None

    async def _connect(self, target: Target, addresses: list[str]) -> Connection:
        loop = asyncio.get_running_loop()
        sock = await aiohappyeyeballs.start_connection(
            [_address_info(address, target.port) for address in addresses],
            happy_eyeballs_delay=STAGGER_S,
            interleave=1,
        )
        wire, connection = await loop.create_connection(Connection, sock=sock)
        if not target.plain:
            assert self._tls is not None, "read before dialling"
            name = target.host.rstrip(".")
            connection.secured(await loop.start_tls(wire, connection, self._tls, server_hostname=name))
        return connection


def _address_info(address: str, port: int) -> aiohappyeyeballs.AddrInfoType:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)


def _request(route: Route, headers: Mapping[str, str], body: bytes) -> bytes:
    """The request as it goes over the wire. No header can hold a second one: each is one line or it is not sent."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    if not lines.count("\r") == lines.count("\n") == len(headers) or "\0" in lines:
        raise Fault("a header of the request holds a line break")
    return f"{route.start}{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _trusting_the_usual() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context

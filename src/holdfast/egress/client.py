"""The HTTP client of the webhook deliverer. Importing it takes a third of a second: nobody does before it is needed.

The receiver is treated as hostile: the address that was vetted is the one that is dialled, redirects are not
followed, nothing is decompressed, little is read, and every wait has an end.
"""

from __future__ import annotations

import socket
import ssl
from contextvars import ContextVar
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import aiohttp
from yarl import URL

from holdfast.egress.exchange import Exchange
from holdfast.egress.guard import Guard, read_target
from holdfast.egress.patience import OutOfPatienceError, Patience, Wait

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from aiohttp.abc import ResolveResult
    from aiohttp.connector import Connection

READ_MAX = 16 * 1024
KEEPALIVE_S = 15.0
WHOLE_MAX = 64 * 1024
ROUTES_MAX = 1024

# Which exchange a new connection is made for; an exchange that made none uses one that was kept.
_CURRENT: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


class Rule(NamedTuple):
    """How strictly addresses are judged: over http:// they must be listed; trusted ones nearly always pass."""

    plain: bool
    trusted: bool

    def vet(self, guard: Guard, address: str, port: int) -> None:
        guard.vet([address], port=port, plain=self.plain, trusted=self.trusted)


class Route(NamedTuple):
    """A URL, read and judged as far as that needs no DNS; `place` is the host and port that requests take turns at."""

    url: URL
    place: str
    rule: Rule


class Client:
    """Makes one POST, and notes what it sees in the exchange as it sees it."""

    lost_connection = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)

    def __init__(self, guard: Guard, tls: ssl.SSLContext | None, connect_s: float) -> None:
        self._guard, self._tls, self._connect_s = guard, tls, connect_s
        self._patience = Patience()
        self._sessions: dict[Rule, aiohttp.ClientSession] = {}
        # Silence and the whole have their ends in `Patience`, not in timers of the client's for each request.
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        self.route = lru_cache(ROUTES_MAX)(self._plan)

    async def close(self) -> None:
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()

    def patience(self, exchange: Exchange) -> Wait:
        """Around all that is done for an exchange."""
        exchange.wait = self._patience.begin(exchange.patience_s, exchange.silence_s)
        return exchange.wait

    async def post(self, route: Route, headers: dict[str, str], body: bytes, exchange: Exchange) -> None:
        # The client writes large bytes in one go and warns about it; a file it writes piece by piece.
        data = aiohttp.BytesPayload(body) if len(body) <= WHOLE_MAX else BytesIO(body)
        session = self._sessions.get(route.rule) or self._open(route.rule)
        _CURRENT.set(exchange)
        async with session.post(
            route.url, data=data, headers=headers, allow_redirects=False, timeout=self._timeout
        ) as response:
            exchange.status = response.status
            exchange.answer = response.headers
            await self._read(response, exchange)

    def describe(self, error: Exception, exchange: Exchange) -> str:
        """A fault in our own words: the client's messages quote whole URLs, which may carry tokens."""
        match error:
            case OutOfPatienceError(silent=True) if exchange.status is None:
                return f"no answer within {exchange.silence_s:g} s"
            case OutOfPatienceError(silent=True):
                return f"nothing came for {exchange.silence_s:g} s"
            case OutOfPatienceError():
                return f"no complete answer within {exchange.patience_s:g} s"
            case aiohttp.ConnectionTimeoutError():
                return f"no connection within {self._connect_s:g} s"
            case aiohttp.ClientConnectorCertificateError():
                why = getattr(error.certificate_error, "verify_message", "") or type(error.certificate_error).__name__
                return f"TLS: the certificate is not valid: {why}"
            case aiohttp.ClientConnectorSSLError():
                return f"TLS failed: {getattr(error.os_error, 'reason', None) or 'the handshake broke off'}"
            case aiohttp.ClientConnectorDNSError():
                return f"the host's name was not found: {error.os_error.strerror or 'no answer'}"
            case aiohttp.ClientConnectorError():
                return f"could not connect: {error.os_error.strerror or type(error.os_error).__name__}"
            case aiohttp.ServerDisconnectedError():
                return "the receiver hung up without an answer"
            case aiohttp.ClientPayloadError():
                return "the answer broke off"
            case aiohttp.ClientResponseError():
                return "the answer is not HTTP"
            case OSError():
                return f"the connection broke: {error.strerror or type(error).__name__}"
            case _:
                return f"unexpected fault: {type(error).__name__}"

    def _plan(self, text: str, trusted: bool) -> Route:
        target = read_target(text)
        rule = Rule(target.plain, trusted)
        if target.address is not None or target.is_localhost:
            self._guard.check_url(text, trusted=trusted)
        # The guard's reading of the host, so that it and the client cannot differ about what the URL names.
        return Route(URL(text, encoded=True).with_host(target.host), f"{target.host}:{target.port}", rule)

    async def _read(self, response: aiohttp.ClientResponse, exchange: Exchange) -> None:
        """A little of the answer's body, for the operator. What is not read to its end is hung up on."""
        try:
            while len(exchange.body) < READ_MAX:
                exchange.heard()
                chunk = await response.content.read(READ_MAX - len(exchange.body))
                if not chunk:
                    return
                exchange.body += chunk
        except (aiohttp.ClientError, OSError) as error:
            exchange.fault = f"answered {response.status}, but {self.describe(error, exchange)}"
        if not response.content.at_eof():
            response.close()

    def _open(self, rule: Rule) -> aiohttp.ClientSession:
        """The session for one rule. Rules do not share connections: a trusted one must not serve an untrusted."""
        connector = aiohttp.TCPConnector(
            limit=0,
            use_dns_cache=False,
            keepalive_timeout=KEEPALIVE_S,
            resolver=cast("aiohttp.abc.AbstractResolver", VettedResolver(self._guard, rule)),
            socket_factory=lambda info: vetted_socket(self._guard, rule, info, self._connect_s),
            ssl=self._tls if self._tls is not None else True,
        )
        session = self._sessions[rule] = aiohttp.ClientSession(
            connector=connector,
            request_class=Request,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=READ_MAX,
        )
        return session


class Request(aiohttp.ClientRequest):
    """One that says when it leaves: making a connection has a time of its own."""

    def send(self, conn: Connection) -> Coroutine[Any, Any, aiohttp.ClientResponse]:
        exchange = _CURRENT.get()
        if exchange is not None:
            exchange.heard()
        return super().send(conn)


class VettedResolver:
    """Asks the guard, once per connection; what it returns are addresses, so that nobody asks again."""

    def __init__(self, guard: Guard, rule: Rule) -> None:
        self._guard, self._rule = guard, rule

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_UNSPEC) -> list[ResolveResult]:
        found = await self._guard.resolve(host, port, plain=self._rule.plain, trusted=self._rule.trusted)
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": socket.IPPROTO_TCP,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in found
        ]

    async def close(self) -> None:
        pass


def vetted_socket(guard: Guard, rule: Rule, info: tuple[Any, ...], connect_s: float) -> socket.socket:
    """The last look, at the very address about to be dialled: it holds even if the client took another way here."""
    family, kind, protocol, _, address = info
    rule.vet(guard, str(address[0]), int(address[1]))
    exchange = _CURRENT.get()
    if exchange is not None:
        exchange.dialled = True
        exchange.heard(connect_s)
    return socket.socket(family, kind, protocol)

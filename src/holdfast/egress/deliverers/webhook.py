"""The webhook deliverer: one signed POST, judged by its status.

The receiver is treated as hostile: the address that was vetted is the one that is dialled, redirects are not
followed, nothing is decompressed, little is read, and every wait has an end.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakValueDictionary

from holdfast.domain.delivery import Claim, Dead, Delivered, Outcome, Retry, clip
from holdfast.domain.errors import HoldfastError, TargetRefused, TooLarge
from holdfast.domain.retry import RETRY_AFTER_MAX_S
from holdfast.domain.signature import sign
from holdfast.domain.states import Reason
from holdfast.egress.formats import render
from holdfast.egress.guard import Guard, read_target
from holdfast.ports import Clock

if TYPE_CHECKING:
    # Importing it takes a third of a second, and the engine must start first: it is loaded at the first delivery.
    import aiohttp
    from aiohttp.abc import ResolveResult
    from yarl import URL

READ_MAX = 16 * 1024
SHOWN_MAX = 500
KEEPALIVE_S = 15.0
RESEND_MS = 1000
WHOLE_MAX = 64 * 1024
ROUTES_MAX = 1024
RETRIED_4XX = frozenset({408, 425, 429})
HEADERS_KEPT, HEADER_MAX = 12, 100
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")  # whole ones by the book; some senders count more finely
HIDDEN_HEADERS = frozenset({"set-cookie", "www-authenticate", "proxy-authenticate", "authorization"})


@dataclass(frozen=True, slots=True)
class Sending:
    """How a contract's requests look, and which refusals it takes for a passing thing."""

    secrets: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    template: str | None = None
    retry_on: frozenset[int] = frozenset()
    hidden: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """What must not be kept if it is said back, in every form; worked out once for all attempts."""
        given = (*self.secrets, *self.headers.values())
        forms = (form for text in given for form in (text, text.removeprefix("whsec_").removeprefix("whsk_")))
        object.__setattr__(self, "hidden", tuple(dict.fromkeys(filter(None, forms))))


PLAIN = Sending()


@dataclass(slots=True)
class Exchange:
    """What is known about one attempt so far; it is complete enough to be judged at any moment."""

    url: str
    began_ms: int
    sending: Sending = PLAIN
    request: Mapping[str, str] = field(default_factory=dict)
    answer: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None
    body: bytes = b""
    fault: str | None = None
    refusal: str | None = None
    dialled: bool = False
    patience_s: float = 0.0

    def outcome(self, now_ms: int, boot_ms: int) -> Outcome:
        detail: dict[str, Any] = {
            "status": self.status,
            "duration_ms": max(0, boot_ms - self.began_ms),
            "url": self._masked(self.url.partition("?")[0]),
            "response": self._shown(),
        }
        went_well = self.status is not None and 200 <= self.status <= 299
        if went_well and self.fault is None and self.refusal is None:
            return Delivered(detail=detail)
        if not went_well:  # of what went well, this much is enough
            detail["request_headers"] = _request_head(self.request, self.sending.headers)
            answered = _answer_head(self.answer)
            detail["response_headers"] = {name: self._masked(value) for name, value in answered.items()}
        if self.refusal is not None:
            return Dead(Reason.REJECTED, self._masked(self.refusal), detail)
        if self.status is None or went_well:
            return Retry(self._masked(self.fault or "the attempt ended without an answer"), detail=detail)
        return judge(self.status, retry_after_s(self.answer.get("Retry-After"), now_ms), detail, self.sending.retry_on)

    def _shown(self) -> str:
        text = self._masked(self.body.decode("utf-8", "replace"))
        shown = text[:SHOWN_MAX]
        return shown if shown.isprintable() else "".join(char if char.isprintable() else " " for char in shown)

    def _masked(self, text: str) -> str:
        """A receiver knows our secret and may echo it; what we keep must not hold it."""
        for form in self.sending.hidden:
            text = text.replace(form, "***")
        return text


# Which exchange a new connection is made for; an exchange that made none uses one that was kept.
_CURRENT: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


class WebhookDeliverer:
    """Delivers to `https://…` (and, where the operator allows it, `http://…`).

    `sending` tells how a contract's requests look; an event sent to a direct address goes out plain and unsigned.
    `trusted` says whether a contract's target stands in the config file or in code. `gone` disables a contract whose
    receiver answered 410: what waits for it, this delivery included, is parked and not lost. `patience` is the total
    time a contract's receiver may take, where that is not `total_s`.
    """

    kind = "https"

    def __init__(
        self,
        guard: Guard,
        sending: Callable[[str], Awaitable[Sending]],
        clock: Clock,
        *,
        user_agent: str,
        trusted: Callable[[str], bool] = lambda contract_id: False,
        gone: Callable[[str], Awaitable[None]] | None = None,
        patience: Callable[[str | None], float] | None = None,
        tls: ssl.SSLContext | None = None,
        connect_s: float = 5.0,
        first_byte_s: float = 15.0,
        total_s: float = 25.0,
        concurrency_per_host: int = 64,
    ) -> None:
        self._guard, self._sending, self._clock = guard, sending, clock
        self._user_agent, self._trusted, self._tls, self._gone = user_agent, trusted, tls, gone
        self._loading = self._loaded = False
        self._patience = patience or (lambda contract_id: total_s)
        self._connect_s, self._first_byte_s, self._total_s = connect_s, first_byte_s, total_s
        self._per_host = concurrency_per_host
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._sessions: dict[Rule, aiohttp.ClientSession] = {}
        self._route = lru_cache(ROUTES_MAX)(self._plan)
        self._limits = lru_cache(ROUTES_MAX)(self._limit)

    def serves(self) -> frozenset[str] | None:
        """Every address of its kind; none while the client is being loaded, so that nothing is claimed only to wait."""
        return frozenset() if self._loading else None

    async def start(self) -> None:
        """Load the HTTP client without holding up the event loop. The first delivery does it if nobody did."""
        if self._loaded:
            return
        self._loading = True
        try:
            await asyncio.to_thread(import_module, "aiohttp")
            self._loaded = True
        finally:
            self._loading = False

    async def deliver(self, claim: Claim) -> Outcome:
        exchange = Exchange(claim.delivery.address, self._clock.boot_ms())
        try:
            await self._attempt(claim, exchange)
        except (TargetRefused, TooLarge) as refused:
            exchange.refusal = refused.message
        except HoldfastError as error:
            exchange.fault = error.message
        except Exception as error:
            exchange.fault = self._describe(error, exchange)
        outcome = exchange.outcome(self._clock.now_ms(), self._clock.boot_ms())
        contract = claim.delivery.contract_id
        if isinstance(outcome, Dead) and exchange.status == 410 and contract is not None and self._gone is not None:
            await self._gone(contract)
            return Retry("410 Gone: the contract is disabled and its deliveries wait", detail=outcome.detail)
        return outcome

    async def close(self) -> None:
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()

    async def _attempt(self, claim: Claim, exchange: Exchange) -> None:
        contract = claim.delivery.contract_id
        exchange.sending = await self._sending(contract) if contract is not None else PLAIN
        if not self._sessions:
            await self.start()
        route = self._route(exchange.url, contract is not None and self._trusted(contract))
        session = self._sessions.get(route.rule) or self._open(route.rule)
        turn = self._turns.get(route.place)
        if turn is None:
            turn = self._turns[route.place] = asyncio.Semaphore(self._per_host)
        async with turn:
            # Waiting for a turn is our own doing: the receiver's time, and the signature's, begin here.
            exchange.began_ms = self._clock.boot_ms()
            exchange.patience_s = self._patience(contract)
            async with asyncio.timeout(exchange.patience_s):
                await self._send(session, route.url, claim, exchange)

    def _plan(self, text: str, trusted: bool) -> Route:
        from yarl import URL

        target = read_target(text)
        rule = Rule(target.plain, trusted)
        if target.address is not None or target.is_localhost:
            self._guard.check_url(text, trusted=trusted)
        # The guard's reading of the host, so that it and the client cannot differ about what the URL names.
        return Route(URL(text, encoded=True).with_host(target.host), f"{target.host}:{target.port}", rule)

    async def _send(self, session: aiohttp.ClientSession, url: URL, claim: Claim, exchange: Exchange) -> None:
        import aiohttp

        sending = exchange.sending
        body, content_type, extra = render(sending.format, sending.template, claim.event, exchange.url)
        headers = {
            "User-Agent": self._user_agent,
            "Content-Type": content_type,
            **extra,
            **sending.headers,
            "Accept-Encoding": "identity",
            **sign(sending.secrets, claim.event.id, self._clock.now_ms() // 1000, body),
        }
        exchange.request = headers
        try:
            await self._post(session, url, headers, body, exchange)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            # A kept connection that its server closed in the same moment says nothing about the receiver. The id
            # makes sending once more safe, and it is not worth one of the delivery's attempts.
            # After a while it is not the same moment, and somebody else may hold the delivery by now.
            if exchange.dialled or self._clock.boot_ms() - exchange.began_ms > RESEND_MS:
                raise
            await self._post(session, url, headers, body, exchange)

    async def _post(
        self,
        session: aiohttp.ClientSession,
        url: URL,
        headers: dict[str, str],
        body: bytes,
        exchange: Exchange,
    ) -> None:
        import aiohttp

        # The client writes large bytes in one go and warns about it; a file it writes piece by piece.
        data = aiohttp.BytesPayload(body) if len(body) <= WHOLE_MAX else BytesIO(body)
        _CURRENT.set(exchange)
        timeout = self._limits(self._silence_s(exchange))
        async with session.post(url, data=data, headers=headers, allow_redirects=False, timeout=timeout) as response:
            exchange.status = response.status
            exchange.answer = response.headers
            await self._read(response, exchange)

    def _limit(self, silence_s: float) -> aiohttp.ClientTimeout:
        import aiohttp

        return aiohttp.ClientTimeout(total=None, connect=self._connect_s, sock_read=silence_s)

    async def _read(self, response: aiohttp.ClientResponse, exchange: Exchange) -> None:
        """A little of the answer's body, for the operator. What is not read to its end is hung up on."""
        import aiohttp

        try:
            while len(exchange.body) < READ_MAX:
                chunk = await response.content.read(READ_MAX - len(exchange.body))
                if not chunk:
                    return
                exchange.body += chunk
        except (aiohttp.ClientError, OSError) as error:
            exchange.fault = f"answered {response.status}, but {self._describe(error, exchange)}"
        if not response.content.at_eof():
            response.close()

    def _open(self, rule: Rule) -> aiohttp.ClientSession:
        """The session for one rule. Rules do not share connections: a trusted one must not serve an untrusted."""
        import aiohttp

        connector = aiohttp.TCPConnector(
            limit=0,
            use_dns_cache=False,
            keepalive_timeout=KEEPALIVE_S,
            resolver=cast("aiohttp.abc.AbstractResolver", VettedResolver(self._guard, rule)),
            socket_factory=lambda info: vetted_socket(self._guard, rule, info),
            ssl=self._tls if self._tls is not None else True,
        )
        session = self._sessions[rule] = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=READ_MAX,
        )
        return session

    def _silence_s(self, exchange: Exchange) -> float:
        """How long a receiver may say nothing; one that was given more time in all was given it for this."""
        return self._first_byte_s if exchange.patience_s <= self._total_s else exchange.patience_s

    def _describe(self, error: Exception, exchange: Exchange) -> str:
        """A fault in our own words: the client's messages quote whole URLs, which may carry tokens."""
        import aiohttp

        match error:
            case aiohttp.ConnectionTimeoutError():
                return f"no connection within {self._connect_s:g} s"
            case aiohttp.ServerTimeoutError():
                return f"nothing came for {self._silence_s(exchange):g} s"
            case TimeoutError() if error.errno is None:
                return f"no complete answer within {exchange.patience_s:g} s"
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


def vetted_socket(guard: Guard, rule: Rule, info: tuple[Any, ...]) -> socket.socket:
    """The last look, at the very address about to be dialled: it holds even if the client took another way here."""
    family, kind, protocol, _, address = info
    rule.vet(guard, str(address[0]), int(address[1]))
    exchange = _CURRENT.get()
    if exchange is not None:
        exchange.dialled = True
    return socket.socket(family, kind, protocol)


def _request_head(headers: Mapping[str, str], private: Mapping[str, str]) -> dict[str, str]:
    """What was sent, for the operator: the values of a contract's own headers, and signatures, are not shown."""
    hidden = {name.lower() for name in private} | {"webhook-signature", "x-hook-signature"}
    return {name: "***" if name.lower() in hidden else value for name, value in headers.items()}


def _answer_head(headers: Mapping[str, str]) -> dict[str, str]:
    """The first few headers of an answer, each a line, none that could let somebody in."""
    kept = [(name, value) for name, value in headers.items() if name.lower() not in HIDDEN_HEADERS]
    return {clip(name)[:HEADER_MAX]: clip(value)[:HEADER_MAX] for name, value in kept[:HEADERS_KEPT]}


def judge(
    status: int, after_s: float | None, detail: dict[str, Any], retry_on: frozenset[int] = frozenset()
) -> Outcome:
    """What a status means for the delivery.

    >>> judge(503, 30.0, {})
    Retry(error='answered 503', after_s=30.0, detail={})
    """
    if 200 <= status <= 299:
        return Delivered(detail=detail)
    if status == 410:
        gone = {**detail, "gone": True}
        return Dead(Reason.REJECTED, "410 Gone: the receiver wants no more of this contract's events", gone)
    if 400 <= status <= 499 and status not in RETRIED_4XX and status not in retry_on:
        return Dead(Reason.REJECTED, f"answered {status}: the receiver refuses this event", detail)
    if 300 <= status <= 399:
        return Retry(f"redirect not followed: answered {status}; set the target to the final URL", after_s, detail)
    return Retry(f"answered {status}", after_s, detail)


def retry_after_s(text: str | None, now_ms: int) -> float | None:
    """The seconds a `Retry-After` asks for, bounded; None when it says nothing that can be used.

    >>> retry_after_s("120", 0)
    120.0
    """
    if text is None or len(text) > 100:
        return None
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), RETRY_AFTER_MAX_S)
    try:
        moment = parsedate_to_datetime(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return min(max(0.0, moment.timestamp() - now_ms / 1000), RETRY_AFTER_MAX_S)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None

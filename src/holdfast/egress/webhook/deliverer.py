"""The webhook deliverer: each attempt is one signed POST, and the status of the answer decides the outcome."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from weakref import WeakValueDictionary

from holdfast.domain.delivery import Claim, Dead, Outcome, Retry
from holdfast.domain.errors import HoldfastError, TargetRefused, TooLarge
from holdfast.domain.event import Event
from holdfast.domain.signature import sign
from holdfast.domain.trace import TRACEPARENT, traceparent_of
from holdfast.egress.deliverer import UNTIMED, Attempt
from holdfast.egress.webhook.exchange import Exchange
from holdfast.egress.webhook.formats import render
from holdfast.egress.webhook.requests import UNSIGNED, RequestOptions
from holdfast.net.answer import Disconnected
from holdfast.net.client import Client
from holdfast.net.guard import Guard
from holdfast.net.proxy import DIRECT, Proxies
from holdfast.net.route import Route
from holdfast.ports import Clock

RESEND_MS = 1000


class WebhookDeliverer:
    """Delivers to `https://…` (and, where the operator allows it, `http://…`).

    `options` returns how a contract's requests look; an event sent to a direct address is plain and unsigned. `trusted`
    returns whether a contract's target comes from the config file or from code. `gone` disables a contract whose
    receiver answered 410: its pending deliveries, this one included, are parked and not lost. `timeout` returns the
    total time limit of a contract (default: `total_s`).
    """

    kind = "https"

    def __init__(
        self,
        guard: Guard,
        options: Callable[[str], Awaitable[RequestOptions]],
        clock: Clock,
        *,
        user_agent: str,
        trusted: Callable[[str], bool] = lambda contract_id: False,
        gone: Callable[[str], Awaitable[None]] | None = None,
        timeout: Callable[[str | None], float] | None = None,
        tls: ssl.SSLContext | None = None,
        proxies: Proxies = DIRECT,
        connect_s: float = 5.0,
        first_byte_s: float = 15.0,
        total_s: float = 25.0,
        concurrency_per_host: int = 64,
    ) -> None:
        self._guard, self._options, self._clock = guard, options, clock
        self._user_agent, self._trusted, self._gone = user_agent, trusted, gone
        self._timeout = timeout or (lambda contract_id: total_s)
        self._first_byte_s, self._total_s = first_byte_s, total_s
        self._per_host = concurrency_per_host
        self._host_slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._client = Client(guard, tls, connect_s, proxies)

    def serves(self) -> frozenset[str] | None:
        return None

    async def start(self) -> None:
        """Do the slow set-up (certificates) before the first delivery, which would otherwise wait for it."""
        await self._client.start()

    async def deliver(self, claim: Claim, attempt: Attempt = UNTIMED) -> Outcome:
        attempt.pause_timeout()  # the client has limits of its own, which begin when the host has a free place
        exchange = Exchange(claim.delivery.address, self._clock.boot_ms())
        try:
            await self._attempt(claim, exchange)
        except (TargetRefused, TooLarge) as refused:
            exchange.refusal = refused.message
        except HoldfastError as error:
            exchange.answer.error = error.message
        except Exception as error:
            if not exchange.answer.status_decides:
                exchange.answer.error = self._client.describe(error, exchange.answer)
        outcome = exchange.outcome(self._clock.now_ms(), self._clock.boot_ms())
        contract = claim.delivery.contract_id
        if (
            isinstance(outcome, Dead)
            and exchange.answer.status == 410
            and contract is not None
            and self._gone is not None
        ):
            await self._gone(contract)
            return Retry("410 Gone: the contract is disabled and its deliveries wait", detail=outcome.detail)
        return outcome

    async def close(self) -> None:
        await self._client.close()

    async def _attempt(self, claim: Claim, exchange: Exchange) -> None:
        contract = claim.delivery.contract_id
        exchange.options = await self._options(contract) if contract is not None else UNSIGNED
        route = self._client.route(exchange.url, contract is not None and self._trusted(contract))
        slots = self._host_slots.get(route.authority)
        if slots is None:
            slots = self._host_slots[route.authority] = asyncio.Semaphore(self._per_host)
        async with slots:
            # The wait for a slot is not the receiver's time: limits and the signature's timestamp begin here.
            exchange.began_ms = self._clock.boot_ms()
            total_s = self._timeout(contract)
            # If a contract has a longer total limit, the receiver may stay silent for all of it.
            silence_s = self._first_byte_s if total_s <= self._total_s else total_s
            with self._client.timeout(exchange.answer, total_s, silence_s):
                await self._send(route, claim, exchange)

    async def _send(self, route: Route, claim: Claim, exchange: Exchange) -> None:
        options = exchange.options
        body, content_type, extra = render(options.format, options.template, claim.event, exchange.url)
        defaults = {"User-Agent": self._user_agent, "Accept": "*/*", "Content-Type": content_type, **extra}
        headers = {
            **_merged(defaults, options.headers),
            "Accept-Encoding": "identity",
            **_trace_headers(claim.event),
            **sign(options.secrets, claim.event.id, self._clock.now_ms() // 1000, body),
        }
        exchange.request = headers
        try:
            await self._client.post(route, headers, body, exchange.answer)
        except Disconnected as error:
            # The receiver closed a kept connection just as the request was sent, or the connection held data that
            # belongs to no request. That is no failure of the receiver: send again, which the event id makes safe,
            # without using up an attempt. Not after RESEND_MS: another process may hold the delivery by then.
            if not error.reused or self._clock.boot_ms() - exchange.began_ms > RESEND_MS:
                raise
            # Other kept connections may have been closed as well.
            await self._client.post(route, headers, body, exchange.answer, reuse=False)


def _trace_headers(event: Event) -> dict[str, str]:
    """The trace context that the event carries, so that the receiver's spans belong to the same trace."""
    if TRACEPARENT not in event.properties_json:
        return {}
    traceparent = traceparent_of(event.properties)
    return {} if traceparent is None else {TRACEPARENT: traceparent}


def _merged(defaults: dict[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The default headers, replaced by a contract's own ones of the same name in any case."""
    if not own:
        return defaults
    replaced = {name.lower() for name in own}
    return {name: value for name, value in defaults.items() if name.lower() not in replaced} | dict(own)

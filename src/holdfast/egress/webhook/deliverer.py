"""The webhook deliverer: one signed POST, judged by its status."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from weakref import WeakValueDictionary

from holdfast.domain.delivery import Claim, Dead, Outcome, Retry
from holdfast.domain.errors import HoldfastError, TargetRefused, TooLarge
from holdfast.domain.signature import sign
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

    `options` returns what a contract's requests look like; an event sent to a direct address goes out plain and
    unsigned. `trusted` says whether a contract's target stands in the config file or in code. `gone` disables a
    contract whose receiver answered 410: its pending deliveries, this one included, are parked and not lost. `timeout`
    is the total time limit of a contract, where that is not `total_s`.
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
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._client = Client(guard, tls, connect_s, proxies)

    def serves(self) -> frozenset[str] | None:
        return None

    async def start(self) -> None:
        """Slow set-up that is done once. The first delivery does it otherwise."""
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
        turn = self._turns.get(route.authority)
        if turn is None:
            turn = self._turns[route.authority] = asyncio.Semaphore(self._per_host)
        async with turn:
            # Waiting for a turn is not the receiver's time: its limits, and the signature's timestamp, begin here.
            exchange.began_ms = self._clock.boot_ms()
            total_s = self._timeout(contract)
            # A contract with a longer limit in all may use it up in silence.
            silence_s = self._first_byte_s if total_s <= self._total_s else total_s
            with self._client.timeout(exchange.answer, total_s, silence_s):
                await self._send(route, claim, exchange)

    async def _send(self, route: Route, claim: Claim, exchange: Exchange) -> None:
        options = exchange.options
        body, content_type, extra = render(options.format, options.template, claim.event, exchange.url)
        usual = {"User-Agent": self._user_agent, "Accept": "*/*", "Content-Type": content_type, **extra}
        headers = {
            **_replaced(usual, options.headers),
            "Accept-Encoding": "identity",
            **sign(options.secrets, claim.event.id, self._clock.now_ms() // 1000, body),
        }
        exchange.request = headers
        try:
            await self._client.post(route, headers, body, exchange.answer)
        except Disconnected as error:
            # A kept connection that the receiver closed at this moment, or that carried data of no request, says
            # nothing about the receiver. The id makes it safe to send once more, and no attempt is used up.
            # After a while it is no longer the same moment, and another process may hold the delivery by now.
            if not error.reused or self._clock.boot_ms() - exchange.began_ms > RESEND_MS:
                raise
            # Other kept connections may have been closed as well.
            await self._client.post(route, headers, body, exchange.answer, reuse=False)


def _replaced(usual: dict[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The usual headers, with a contract's own ones in place of those with the same name in any spelling."""
    if not own:
        return usual
    taken = {name.lower() for name in own}
    return {name: value for name, value in usual.items() if name.lower() not in taken} | dict(own)

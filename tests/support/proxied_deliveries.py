"""Deliveries through a proxy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from connect_proxy import ConnectProxy
from holdfast.domain.delivery import Claim, Delivery, Outcome
from holdfast.domain.event import Event
from holdfast.egress.webhook.deliverer import WebhookDeliverer
from holdfast.egress.webhook.requests import RequestOptions
from holdfast.net.guard import Guard
from holdfast.net.proxy import Proxies, read_proxies
from holdfast.ports import SystemClock

PASSWORD = "canary-p@ss/w:rd"

LOGIN = f"user:{PASSWORD}"

NOT_FOUND = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def dns(monkeypatch: pytest.MonkeyPatch, names: Mapping[str, Sequence[str]]) -> list[str]:
    """Let only these names be known, with these addresses; the names that were asked for."""
    asked = []

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        found = names.get(host, [host] if host[0].isdigit() else None)
        if found is None:
            raise NOT_FOUND
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr("holdfast.net.guard.getaddrinfo", getaddrinfo)
    return asked


def claim(url: str, contract: str | None = None) -> Claim:
    event = Event(1, "evt_" + "0" * 32, "s", 1, "app", "t", "2026-01-31T12:00:00Z", 1_700_000_000_000, "{}", "{}")
    return Claim(Delivery(5, url, contract, 0, 0), event, queue=1, token=99, starts=1)


async def unsigned(contract_id: str) -> RequestOptions:
    return RequestOptions()


@asynccontextmanager
async def deliverer(
    proxies: Proxies, tls: ssl.SSLContext | None = None, allow: Sequence[str] = (), **options: Any
) -> AsyncIterator[WebhookDeliverer]:
    one = WebhookDeliverer(
        Guard(allow), unsigned, SystemClock(), user_agent="x", tls=tls, proxies=proxies, connect_s=30.0, **options
    )
    try:
        yield one
    finally:
        await one.close()


async def deliver(url: str, proxies: Proxies, tls: ssl.SSLContext | None = None, **options: Any) -> Outcome:
    async with deliverer(proxies, tls, **options) as one:
        return await one.deliver(claim(url))


def through(proxy: ConnectProxy, scheme: str = "http", login: str = LOGIN) -> Proxies:
    return read_proxies(f"{scheme}://{login}@localhost:{proxy.port}", {})


class Proof(NamedTuple):
    """Certificates of `hook.test` and of `localhost` (the proxy), and a client that trusts both."""

    receiver: ssl.SSLContext
    proxy: ssl.SSLContext
    trusted: ssl.SSLContext
    roots: Path

"""Deliveries to a receiver that sends answers to no request."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from holdfast.domain.delivery import Claim, Delivery
from holdfast.domain.event import Event
from holdfast.egress.webhook.deliverer import WebhookDeliverer
from holdfast.egress.webhook.requests import RequestOptions
from holdfast.net.client import Client
from holdfast.net.guard import Guard
from holdfast.ports import SystemClock

LOOPBACK = Guard(["127.0.0.0/8"])

STRAY_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"


def claim(url: str, n: int, size: int = 0) -> Claim:
    payload = f'{{"n":{n},"text":"{"x" * size}"}}'
    event = Event(n, f"evt_{n:032x}", "s", n, "app", "t", "2026-01-31T12:00:00Z", 1_700_000_000_000, "{}", payload)
    return Claim(Delivery(n, url, None, 0, 0), event, queue=1, token=n, starts=1)


async def unsigned(contract_id: str) -> RequestOptions:
    return RequestOptions()


@asynccontextmanager
async def deliverer(tls: ssl.SSLContext | None = None, **options: Any) -> AsyncIterator[WebhookDeliverer]:
    one = WebhookDeliverer(LOOPBACK, unsigned, SystemClock(), user_agent="test", tls=tls, **options)
    try:
        yield one
    finally:
        await one.close()


def answer(n: int, status: int, form: str) -> bytes:
    """An answer of our own to request n, in one of the ways in which an answer can say where it ends."""
    body = f"for {n}".encode()
    if form == "chunked":
        return b"HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (status, len(body), body)
    interim = b"HTTP/1.0 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" if form == "interim" else b""
    return interim + b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


class Proof(NamedTuple):
    """A certificate, as the receiver shows it and as the client trusts it."""

    shown: ssl.SSLContext
    trusted: ssl.SSLContext


@asynccontextmanager
async def client(tls: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
    one = Client(LOOPBACK, tls, 60.0)
    yield one
    await one.close()

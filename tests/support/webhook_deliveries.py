"""One delivery by the webhook deliverer, without a store."""

from __future__ import annotations

from contextlib import asynccontextmanager

from holdfast.domain.delivery import Claim, Delivery
from holdfast.domain.event import Event
from holdfast.egress.webhook.deliverer import WebhookDeliverer
from holdfast.egress.webhook.requests import RequestOptions
from holdfast.net.guard import Guard
from holdfast.ports import SystemClock

CANARY = "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5"

LOOPBACK = Guard(["127.0.0.0/8"])

NOW_MS = 1_700_000_000_000

ID = "evt_018bcfe5680000000000000000000000"


def claim(url, payload='{"text":"é\\u2028 </script>"}', contract="c1"):
    event = Event(1, ID, "s", 7, "app", "order.placed", "2026-01-31T12:00:00Z", NOW_MS, '{"k":1}', payload)
    return Claim(Delivery(5, url, contract, 0, 0), event, queue=1, token=99, starts=1)


@asynccontextmanager
async def deliverer(guard=LOOPBACK, secrets=(CANARY,), clock=None, request=None, **settings):
    async def lookup(contract_id):
        assert contract_id == "c1"
        return RequestOptions(tuple(secrets), **(request or {}))

    one = WebhookDeliverer(guard, lookup, clock or SystemClock(), user_agent="Holdfast/test", **settings)
    try:
        yield one
    finally:
        await one.close()


async def deliver(url, guard=LOOPBACK, **options):
    async with deliverer(guard, **options) as one:
        return await one.deliver(claim(url))

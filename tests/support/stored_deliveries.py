"""Deliveries to real receivers, as the store records them."""

from __future__ import annotations

import asyncio
import ssl

from engine_harness import EngineHarness
from holdfast.domain.event import new_event
from holdfast.egress.webhook.deliverer import WebhookDeliverer
from holdfast.egress.webhook.requests import RequestOptions
from holdfast.net.guard import Guard
from holdfast.store.roles.operator import AttemptRow, DeliveryRow

LOOPBACK = ("127.0.0.0/8",)


def words(text: str) -> list[str]:
    return text.split()


class Wired(EngineHarness):
    """A harness with the real webhook deliverer on its clock. The limits are long: only a hang reaches them."""

    def wire(self, allow: tuple[str, ...] = LOOPBACK, tls: ssl.SSLContext | None = None, **waits: float) -> None:
        async def signed(contract_id: str) -> RequestOptions:
            return RequestOptions(("whsec_" + "YWJj" * 8,))

        waits = {"connect_s": 60.0, "first_byte_s": 60.0, "total_s": 60.0, **waits}
        self.script = WebhookDeliverer(Guard(allow), signed, self.clock, user_agent="x", tls=tls, **waits)  # type: ignore[assignment]

    async def settled(self, count: int = 1) -> None:
        """Turn the engine until so many attempts have ended."""
        async with asyncio.timeout(60):
            while self.engine.delivered + self.engine.failed < count:
                await self.engine.tick()
                await asyncio.sleep(0.005)

    async def attempt(self, url: str) -> tuple[DeliveryRow, AttemptRow]:
        """One event for a contract at this URL, tried once: how its delivery stands, and the attempt."""
        await self.start()
        await self.contract("c", url)
        await self.publish(new_event("t.x", {"i": 1}))
        await self.settled()
        (row,) = await self.rows()
        (tried,) = await self.store.operator.attempts(row.id)
        return row, tried


def stands(row: DeliveryRow) -> str:
    return row.state if row.reason is None else f"{row.state}({row.reason})"

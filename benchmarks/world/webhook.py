"""Send one signed webhook: what a user of a job queue writes, because a queue has none of it. Shared by the peers."""

import base64
import hashlib
import hmac
import json
import os
import time

import aiohttp


class Webhook:
    async def open(self) -> None:
        connector = aiohttp.TCPConnector(limit=64)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30))
        self._url = os.environ["TARGET"]
        self._key = base64.b64decode(os.environ["SECRET"].removeprefix("whsec_"))

    async def close(self) -> None:
        await self._session.close()

    async def send(self, order: dict[str, object]) -> None:
        id, stamp, body = f"order-{order['id']}", str(int(time.time())), json.dumps(order).encode()
        digest = hmac.new(self._key, f"{id}.{stamp}.".encode() + body, hashlib.sha256).digest()
        headers = {
            "Content-Type": "application/json",
            "webhook-id": id,
            "webhook-timestamp": stamp,
            "webhook-signature": "v1," + base64.b64encode(digest).decode(),
        }
        async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as response:
            if not 200 <= response.status < 300:
                raise RuntimeError(f"the receiver answered {response.status}")

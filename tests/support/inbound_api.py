"""A daemon's HTTP API with inbound sources, in this process."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import nacl.signing

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.daemon.serve import Server, bind
from holdfast.domain.inbound_event import HookEvent
from holdfast.ingress.webhook import normalizing
from holdfast.ingress.webhook.platforms import find_normalizer
from holdfast.operations.answers.encode import encode
from holdfast.store.open import open_store
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.request_filter import BearerTokens

KEY = nacl.signing.SigningKey(b"\x07" * 32)

WHSEC = "whsec_" + base64.b64encode(b"k" * 32).decode()

CONFIG = f"""
hooks:
  inbound:
    github: {{path: /hooks/github, secrets: [old-canary, new-canary]}}
    whatsapp: {{path: /hooks/whatsapp, secret: wa-canary, verify_token: token-canary}}
    slack: {{secret: slack-canary}}
    stripe: {{secret: stripe-canary}}
    discord: {{secret: {bytes(KEY.verify_key).hex()}}}
    clerk: {{secret: {WHSEC}, normalizer: standard}}
    open: {{insecure: true, body_max_bytes: 2000}}
    odd: {{insecure: true, normalizer: broken}}
    slow: {{insecure: true, normalizer: slow_first}}
"""


def broken(payload: Any, headers: Any) -> Any:
    raise KeyError("the field I wanted")


def slow_first(payload: Any) -> HookEvent:
    time.sleep(0.3 if payload["number"] == 0 else 0)  # time for the others to overtake, if they could
    return HookEvent("slow", "slow.made", payload=payload)


class Place:
    """One served runtime, and requests to it as a platform would send them: without a token, under any Host."""

    def __init__(self, runtime: Runtime, session: aiohttp.ClientSession, url: str) -> None:
        self.runtime, self.session, self.url = runtime, session, url

    async def send(
        self, path: str, body: Any = b"", method: str = "POST", **headers: str
    ) -> tuple[int, Any, Mapping[str, str]]:
        sent = {"Host": "hooks.example.com", "Content-Type": "application/json", **headers}
        async with self.session.request(method, self.url + path, data=body, headers=sent) as response:
            raw = await response.read()
            if response.status >= 400:
                assert response.headers["content-type"] == "application/problem+json"
                assert "canary" not in raw.decode()
            value = json.loads(raw) if "json" in response.headers.get("content-type", "") else raw.decode()
            return response.status, value, response.headers

    async def github(
        self, body: Any, event: str = "push", id: str | None = None, secret: str = "new-canary", **more: str
    ):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"X-GitHub-Event": event, "X-Hub-Signature-256": hub(secret, raw), **more}
        return await self.send("/hooks/github", raw, **headers, **({"X-GitHub-Delivery": id} if id else {}))

    async def events(self, **wanted: str) -> list[dict[str, Any]]:
        return encode(await self.runtime.operations.events.find(**wanted))["items"]

    async def settled(self, type: str, count: int = 1) -> list[dict[str, Any]]:
        """The events of a type, once there are so many."""
        async with asyncio.timeout(60):
            while len(found := await self.events(type=type)) < count:
                await asyncio.sleep(0.01)
        return found


def hub(secret: str, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


@asynccontextmanager
async def serve(folder: Path, store: str | None = None) -> AsyncIterator[Place]:
    (folder / "holdfast.yml").write_text(CONFIG, encoding="utf-8")
    config = load_config(folder / "holdfast.yml")
    runtime = Runtime(
        open_store(store or f"sqlite:///{folder}/inbound.db", keep=True),
        config,
        None,
        normalizers={"broken": broken, "slow_first": slow_first},
    )
    await runtime.start()
    listener = bind("127.0.0.1", 0)
    tokens = BearerTokens("admin-token", runtime.operations.tokens.scope_of)
    app = build_app(runtime.operations, tokens, {"127.0.0.1"}, 100_000, config.inbound)
    server = Server(app, listener)
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Place(runtime, session, f"http://127.0.0.1:{listener.getsockname()[1]}")
    await server.stop()
    await runtime.stop()


def inbound_handler(name: str) -> Any:
    return normalizing(name, find_normalizer("json", name, {}))

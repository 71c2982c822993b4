"""REST and the web page inside the user's own ASGI application.

A mounted application receives no lifespan, so the store is opened by the first request. Its verbs work whether or not
this process delivers.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.domain.scopes import TokenScope, parse_scopes
from holdfast.operations.local_operations import open_live_operations
from holdfast.streams.live import POLL_S, LiveViews
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.request_filter import BearerTokens
from holdfast.surfaces.web.site import path_of

Auth = Callable[[Request], Iterable[str] | Awaitable[Iterable[str] | None] | None]
"""The scopes of the visitor, such as `{"read", "operate"}`, or None: the visitor may not see anything."""

BODY_MAX_BYTES = 1 << 20
LIVE_S = 10.0
"""A server waits for open connections before it stops, and does not say that it stops. So none of ours lasts long."""
IDLE_S = 5.0


class MountedApp:
    """An ASGI application. Without `auth`, bearer tokens and logins of the store apply, never open access."""

    def __init__(self, url: str, auth: Auth | None) -> None:
        self._url, self._auth = url, auth
        self._secret = secrets.token_hex(32)
        self._app: ASGIApp | None = None
        self._opening: asyncio.Lock | None = None
        self._opened = AsyncExitStack()
        self._updates: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        scope = {**scope, "path": path_of(scope)}  # routes know only the path below the mount
        if self._auth is not None:
            found = self._auth(Request(scope))
            scopes = await found if inspect.isawaitable(found) else found
            if scopes is not None:
                scope["holdfast.scope"] = TokenScope("application", frozenset(parse_scopes(",".join(scopes))))
        await (await self._open())(scope, receive, send)

    async def _open(self) -> ASGIApp:
        """Open the store once, in the event loop of the first request."""
        if self._app is None:
            self._opening = self._opening or asyncio.Lock()
            async with self._opening:
                if self._app is None:
                    opened = open_live_operations(self._url, "sqlite3", write=True)
                    operations, live = await self._opened.enter_async_context(opened)
                    live.wake = lambda: self._update(live)
                    tokens = BearerTokens(None, operations.tokens.scope_of)
                    self._app = build_app(
                        operations, tokens, None, BODY_MAX_BYTES, page_secret=lambda: self._secret, live_s=LIVE_S
                    )
        return self._app

    def _update(self, live: LiveViews) -> None:
        """Read what is new while there are clients."""
        if self._updates is None or self._updates.done():
            self._updates = asyncio.create_task(_tick(live))

    async def close(self) -> None:
        """Close the store."""
        self._app = None
        if self._updates is not None:
            self._updates.cancel()
            await asyncio.gather(self._updates, return_exceptions=True)
        await self._opened.aclose()


async def _tick(live: LiveViews) -> None:
    """Until there has been no client for a while: one that woke it is counted only when it begins to read."""
    idle_s = 0.0
    while idle_s < IDLE_S:
        delay_s = await live.tick()
        idle_s = 0.0 if delay_s is not None else idle_s + POLL_S
        await asyncio.sleep(POLL_S if delay_s is None else delay_s)

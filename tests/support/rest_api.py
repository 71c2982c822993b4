"""A daemon's HTTP API, in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from declared_answers import check_answer
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.daemon.serve import Server, bind
from holdfast.store.open import open_store
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.request_filter import BearerTokens


class Api:
    """A client of one served runtime."""

    def __init__(self, runtime: Runtime, session: aiohttp.ClientSession, url: str) -> None:
        self.runtime, self.session, self.url = runtime, session, url

    async def call(self, method: str, path: str, body: Any = None, token: str = "admin-token", **headers: str):
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
        async with self.session.request(method, self.url + path, data=data, headers=sent) as response:
            raw = await response.read()
            kind = response.headers.get("content-type", "")
            value = json.loads(raw) if "json" in kind else raw.decode()
            if response.status >= 400:
                assert kind == "application/problem+json", (response.status, raw)
                assert {"type", "title", "status", "detail"} <= set(value)
                assert value["status"] == response.status
            check_answer(method, path, response.status, kind, value)
            return response.status, value


@asynccontextmanager
async def serve(folder: Path) -> AsyncIterator[Api]:
    store = open_store(f"sqlite:///{folder}/rest.db", keep=True)
    runtime = Runtime(store, load_config(None), None, handlers={"seen": accept})
    await runtime.start()
    listener = bind("127.0.0.1", 0)
    tokens = BearerTokens("admin-token", runtime.operations.tokens.scope_of)
    server = Server(build_app(runtime.operations, tokens, {"127.0.0.1", "localhost"}, 100_000), listener)
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Api(runtime, session, f"http://127.0.0.1:{listener.getsockname()[1]}")
    await server.stop()
    await runtime.stop()


async def accept(event) -> None: ...

"""Most routes are loaded when somebody asks for one: once, whoever asks, and whatever becomes of who asked first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.surfaces.rest import api
from holdfast.surfaces.rest.app import App, build_app
from holdfast.surfaces.rest.gate import Tokens

HEADERS = [(b"host", b"localhost"), (b"authorization", b"Bearer admin")]


class Build:
    """Stands before the real builder: counts, waits for leave, and fails as often as it is told."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self._real, self.count, self.failures = real, 0, 0
        self.leave = threading.Event()
        self.leave.set()

    def __call__(self, *arguments: Any) -> Any:
        self.count += 1
        assert self.leave.wait(30)
        if self.count <= self.failures:
            raise RuntimeError("it could not be built")
        return self._real(*arguments)


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Build:
    made = Build(api.build_api)
    monkeypatch.setattr(api, "build_api", made)
    return made


def make_app() -> App:
    async def nobody(token: str) -> str | None:
        return None

    return build_app(None, Tokens("admin", nobody), {"localhost"}, 1000)  # type: ignore[arg-type]


async def ask(app: App, path: str, method: str = "GET") -> int:
    """The status of one request."""
    told: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        told.append(message)

    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
             "headers": HEADERS, "scheme": "http", "server": ("localhost", 80), "http_version": "1.1"}  # fmt: skip
    await app(scope, receive, send)
    return int(told[0]["status"])


async def test_the_swift_endpoints_answer_without_the_others(build: Build) -> None:
    assert await ask(make_app(), "/healthz") == 200
    assert build.count == 0


async def test_whoever_asks_they_are_built_once(build: Build) -> None:
    app = make_app()
    assert await asyncio.gather(*[ask(app, "/openapi.json") for _ in range(5)]) == [200] * 5
    assert await ask(app, "/nowhere") == 404
    assert await ask(app, "/healthz", "DELETE") == 405
    assert build.count == 1


async def test_one_who_hangs_up_does_not_take_them_from_the_others(build: Build) -> None:
    app = make_app()
    build.leave.clear()
    first, second = (asyncio.create_task(ask(app, "/openapi.json")) for _ in range(2))
    while build.count == 0:
        await asyncio.sleep(0.001)
    first.cancel()
    build.leave.set()
    assert await second == 200
    assert first.cancelled()
    assert build.count == 1


async def test_after_a_failure_the_next_request_tries_again(build: Build) -> None:
    app = make_app()
    build.failures = 1
    assert await ask(app, "/openapi.json") == 500
    assert await ask(app, "/openapi.json") == 200

"""The same requests on a store itself, for commands with `--store` or `--app`: no daemon, no HTTP, no token."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message

from holdfast.config.application import load_app
from holdfast.domain.json_value import KnownJson
from holdfast.domain.scopes import TokenScope
from holdfast.home import masked_url
from holdfast.operations.local_operations import local_actor, open_live_operations, open_operations
from holdfast.operations.verbs import Operations
from holdfast.streams.live import POLL_S, LiveViews, View
from holdfast.surfaces.cli.client import ANSWER_S, Client, next_cursor, query_text
from holdfast.surfaces.rest.event_stream import EventStream
from holdfast.surfaces.rest.router import Router
from holdfast.surfaces.rest.routes import OPERATIONS

BODY_MAX = 16 * 1024 * 1024


class LocalClient(Client):
    """Answers with the operations of the REST surface. A user who can open a store owns it, so no token is needed."""

    def __init__(self, store: str, driver: str) -> None:
        self.url, self.next, self.answer_s = masked_url(store), None, ANSWER_S
        self._store, self._driver = store, driver
        self._router = Router(OPERATIONS, {})

    def renew(self) -> LocalClient:
        return self

    @contextmanager
    def follow(
        self, path: str, query: Mapping[str, object], last_event_id: str | None = None
    ) -> Iterator[Iterator[str]]:
        """The lines of a live view, which this process reads from the store."""
        given = {name: value for name, value in query.items() if value is not None}
        headers = [] if last_event_id is None else [(b"last-event-id", last_event_id.encode())]
        stack = AsyncExitStack()
        with asyncio.Runner() as runner:
            try:
                operations, live = runner.run(
                    stack.enter_async_context(open_live_operations(self._store, self._driver))
                )
                request = _request(operations, "GET", path + query_text(given), b"", headers)
                answer = runner.run(self._router.answer(request, operations))
                if not isinstance(answer, EventStream):
                    status, _, body = runner.run(_sent(answer, request))
                    self._read(status, body)
                    raise AssertionError("a live view was answered without one")
                lines = _lines(runner, live, answer.view)
                try:
                    yield lines
                finally:
                    lines.close()
            finally:
                runner.run(stack.aclose())

    def _call(self, method: str, path: str, body: bytes | None, kind: str = "application/json") -> KnownJson:
        return self._read(*asyncio.run(self._answer(method, path, body or b"")))

    async def _answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        async with open_operations(self._store, write=method != "GET", driver=self._driver) as operations:
            request = _request(operations, method, path, body, [])
            status, headers, sent = await _sent(await self._router.answer(request, operations), request)
            self.next = next_cursor(headers.get(b"link", b"").decode("latin-1"))
            return status, sent


def open_client(store: str | None, app: str | None) -> LocalClient:
    """The client of a store, or of the store of an application."""
    if app is not None:
        return LocalClient(load_app(app).url, "sqlite3")
    assert store is not None
    return LocalClient(store, "apsw")


def _request(
    operations: Operations, method: str, path: str, body: bytes, headers: list[tuple[bytes, bytes]]
) -> Request:
    parts = urlsplit(path)
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(parts.path),
        "query_string": parts.query.encode(),
        "headers": [(b"content-type", b"application/json"), *headers],
        "app": SimpleNamespace(state=SimpleNamespace(operations=operations, body_max_bytes=BODY_MAX)),
        "holdfast.scope": TokenScope(local_actor(), frozenset({"admin"})),
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    return Request(scope, receive)


async def _sent(answer: ASGIApp, request: Request) -> tuple[int, dict[bytes, bytes], bytes]:
    """What an answer sends: status, headers, body."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    await answer(request.scope, request.receive, send)
    body = b"".join(message["body"] for message in messages[1:])
    return messages[0]["status"], dict(messages[0]["headers"]), body


def _lines(runner: asyncio.Runner, live: LiveViews, view: View) -> Generator[str]:
    """The lines of the response, read batch by batch. Between two batches nothing runs."""
    items = view.items

    async def step() -> bytes | None:
        try:
            batch = await anext(items)
        except StopAsyncIteration:
            return None
        return b": heartbeat\n\n" if batch is None else batch.sse

    async def next_batch() -> bytes | None:
        """The next bytes; None at the end."""
        waiting = asyncio.ensure_future(step())
        try:
            while not waiting.done():
                await live.tick()
                await asyncio.wait({waiting}, timeout=POLL_S)
            return waiting.result()
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    try:
        while (batch := runner.run(next_batch())) is not None:
            yield from batch.decode("utf-8", "replace").split("\n")
        if view.is_complete():
            yield from ("event: end", "data: {}", "")
    finally:
        runner.run(items.aclose())

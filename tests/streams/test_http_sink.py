"""The HTTP sink keeps every promise of the sink suite, against a receiver that stores each event id once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from holdfast.domain.errors import BadConfig
from holdfast.domain.signature import hook_signature, standard_signature
from holdfast.streams.sinks.http import HttpSink
from holdfast.streams.sinks.sink import PublishFailed, SinkConfig
from holdfast.testing.sink_suite import SinkFeature, SinkSuite, make_events, read_seqs

SECRET = "canaryHTTPsecret"
BODY_MAX = 400_000


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target: HttpTarget

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.target.is_up:  # a connection that outlived the server
            self.close_connection = True
            return
        self.send_response(self.target.receive(dict(self.headers), body))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class HttpTarget:
    """A receiver in this process: it verifies the signature and keeps each event id once."""

    features = frozenset({SinkFeature.DEDUPLICATES, SinkFeature.OUTAGE, SinkFeature.DURABLE})
    secret = SECRET

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.repeated: list[bytes] = []
        self.statuses: list[int] = []
        self.headers: list[dict[str, str]] = []
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._port = 0

    @property
    def is_up(self) -> bool:
        return self._server is not None

    def receive(self, headers: dict[str, str], body: bytes) -> int:
        with self._lock:
            self.headers.append(headers)
            if headers["X-Hook-Signature"] != hook_signature(SECRET, body):
                return 401
            signature = standard_signature(SECRET, headers["webhook-id"], int(headers["webhook-timestamp"]), body)
            if signature not in headers["webhook-signature"] or len(body) > BODY_MAX:
                return 413
            if self.statuses:
                return self.statuses.pop(0)
            batch = json.loads(body)
            for event in batch["events"]:
                assert event["stream"] == batch["stream"]
                raw = _raw(body, event)
                if event.get("replay"):
                    self.repeated.append(raw)
                else:
                    self.bodies.setdefault(event["id"], raw)
            return 204

    def config(self, **options: str | int) -> SinkConfig:
        return SinkConfig("hook", f"http://127.0.0.1:{self._port}/in", "*", {"secret": SECRET, **options})

    def sink(self) -> HttpSink:
        return HttpSink(self.config())

    async def stored(self, stream: str) -> list[bytes]:
        return [body for body in self.bodies.values() if json.loads(body)["stream"] == stream]

    async def replayed(self, stream: str) -> list[bytes]:
        return [body for body in self.repeated if json.loads(body)["stream"] == stream]

    async def kill(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    async def start(self) -> None:
        handler = type("BoundHandler", (Handler,), {"target": self})
        self._server = Server(("127.0.0.1", self._port), handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    async def close(self) -> None:
        await self.kill()


def _raw(body: bytes, event: Any) -> bytes:
    """The bytes of one event as they stand in the request."""
    start = body.index(b'{"id":"' + event["id"].encode() + b'"')
    depth = 0
    for place in range(start, len(body)):
        depth += {ord("{"): 1, ord("}"): -1}.get(body[place], 0)
        if depth == 0 and body[place] == ord("}"):
            return body[start : place + 1]
    raise AssertionError("not an object")


@pytest.fixture
def target() -> Iterator[HttpTarget]:
    return HttpTarget()  # type: ignore[return-value]


class TestHttpSink(SinkSuite):
    async def test_a_batch_is_one_signed_request(self, sink: HttpSink, target: HttpTarget) -> None:
        await sink.publish("run:1", make_events("run:1", 1, 50))
        (headers,) = target.headers
        assert headers["webhook-id"].endswith("-50")
        assert "Authorization" not in headers

    async def test_a_token_is_sent_and_never_shown(self, running: HttpTarget) -> None:
        sink = HttpSink(running.config(token="canaryTOKEN"))
        running.statuses = [500]
        with pytest.raises(PublishFailed) as failed:
            await sink.publish("run:1", make_events("run:1", 1, 1))
        assert "canary" not in str(failed.value)
        assert running.headers[0]["Authorization"] == "Bearer canaryTOKEN"
        await sink.close()

    @pytest.mark.parametrize("status", [302, 401, 404, 408, 429, 500, 503])
    async def test_a_receiver_that_cannot_accept_now_is_retried(
        self, sink: HttpSink, target: HttpTarget, status: int
    ) -> None:
        target.statuses = [status]
        with pytest.raises(PublishFailed, match=str(status)) as failed:
            await sink.publish("run:1", make_events("run:1", 1, 3))
        assert (failed.value.published, failed.value.poison) == (0, False)

    async def test_the_refused_event_of_a_batch_is_found(self, sink: HttpSink, target: HttpTarget) -> None:
        target.statuses = [422, 204, 204, 422]
        with pytest.raises(PublishFailed) as failed:
            await sink.publish("run:1", make_events("run:1", 1, 5))
        assert (failed.value.published, failed.value.poison) == (2, True)

    async def test_a_batch_that_is_too_large_is_sent_in_parts(self, sink: HttpSink, target: HttpTarget) -> None:
        await sink.publish("run:1", make_events("run:1", 1, 10, size=100_000))
        assert read_seqs(await target.stored("run:1")) == list(range(1, 11))


async def test_a_metadata_service_is_refused() -> None:
    for url in ("http://169.254.169.254/latest", "http://[fe80::1]/"):
        with pytest.raises(BadConfig, match="may not be a target"):
            HttpSink(SinkConfig("hook", url, "*", {}))


@pytest.mark.parametrize(
    ("options", "words"), [({"secret": "whsec_!"}, "not base64"), ({"topic": "x"}, "no option topic")]
)
def test_wrong_options_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        HttpSink(SinkConfig("hook", "https://example.com/", "*", {**options}))

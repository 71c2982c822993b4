"""A receiver that verifies the signature of every webhook. It is slow, so nothing is measured with it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from benchmarks.orders import Failed

KEY = b"a key of the benchmark, 32 bytes"
SECRET = "whsec_" + base64.b64encode(KEY).decode()


class Checker:
    """A context manager. `expect` waits until so many different webhooks arrived, all valid."""

    def __init__(self) -> None:
        self._valid: set[str] = set()
        self._faults: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def expect(self, count: int, timeout_s: float) -> None:
        ends = time.monotonic() + timeout_s
        while len(self._valid) < count and not self._faults and time.monotonic() < ends:
            time.sleep(0.02)
        if self._faults:
            raise Failed(f"a webhook was not as it should be: {self._faults[0]}")
        if len(self._valid) < count:
            raise Failed(f"{len(self._valid)} of {count} webhooks arrived within {timeout_s:g} s")

    def take(self, id: str, stamp: str, signature: str, body: bytes) -> None:
        digest = hmac.new(KEY, f"{id}.{stamp}.".encode() + body, hashlib.sha256).digest()
        if f"v1,{base64.b64encode(digest).decode()}" not in signature.split():
            self._faults.append(f"the signature of {id or 'a request without an id'} is wrong")
        elif b'"item"' not in body or not isinstance(json.loads(body), dict):
            self._faults.append(f"{id} does not contain the order")
        else:
            self._valid.add(id)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        checker = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                names = ("webhook-id", "webhook-timestamp", "webhook-signature")
                checker.take(*(self.headers.get(name, "") for name in names), body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None: ...

        return Handler

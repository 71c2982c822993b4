"""A webhook receiver in the standard library: it checks both signatures and handles each event once.

    HOOK_SECRET=whsec_… python receiver.py 8800

Give the contract the same secret. A receiver on this machine needs `egress: {allow: ["127.0.0.0/8"]}` in holdfast.yml.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_S = 300
BODY_MAX = 2 * 1024 * 1024


def is_standard(secret: str, headers: Mapping[str, str], body: bytes, now_s: float) -> bool:
    """Standard Webhooks: signs id, time and body, so an old request cannot be replayed."""
    id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not stamp.isascii() or not stamp.isdigit() or abs(now_s - int(stamp)) > TOLERANCE_S:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()
    digest = hmac.new(key, f"{id}.{stamp}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(digest)
    given = headers.get("webhook-signature", "").encode().split(b" ")  # several during a rotation of the secret
    return any(hmac.compare_digest(expected, signature) for signature in given)


def is_hook(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """X-Hook-Signature: signs the body alone. It proves the sender, not the time of sending."""
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), headers.get("x-hook-signature", "").encode())


class Receiver(BaseHTTPRequestHandler):
    secret = os.environ.get("HOOK_SECRET", "")
    seen: set[str] = set()  # noqa: RUF012 - a real receiver stores these with its data, in the same transaction
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        if length > BODY_MAX:
            return self.answer(413)
        body = self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not (is_standard(self.secret, headers, body, time.time()) and is_hook(self.secret, headers, body)):
            return self.answer(401)
        event = json.loads(body)
        if event["id"] not in self.seen:  # delivery is at-least-once: the id shows a repeated delivery
            self.seen.add(event["id"])
            print(event["type"], json.dumps(event["payload"]), flush=True)
        return self.answer(204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def main(port: str = "8800") -> None:
    if not Receiver.secret:
        sys.exit("set HOOK_SECRET to the contract's secret")
    with ThreadingHTTPServer(("127.0.0.1", int(port)), Receiver) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])

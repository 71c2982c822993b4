"""`holdfast listen`: a webhook receiver on this machine, for development."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import click

from holdfast.domain.errors import BadConfig, BadInput
from holdfast.domain.signature import verify_hook, verify_standard
from holdfast.surfaces.cli.options import Command
from holdfast.surfaces.cli.output import echo, visible

HOST = "127.0.0.1"
BODY_MAX = 10 * 1024 * 1024
SHOWN = ("content-type", "user-agent", "webhook-id", "webhook-timestamp", "x-hook-signature", "traceparent")
TEXT_MAX = 4000


@click.command(cls=Command)
@click.option("--port", type=click.IntRange(0, 65535), default=4654, show_default=True, help="Port; 0 picks one.")
@click.option("--secret-env", metavar="NAME", help="Environment variable that holds the signing secret to verify with.")
@click.option("--status", type=click.IntRange(200, 599), default=200, show_default=True, help="The answer.")
@click.option("--count", type=click.IntRange(1), help="Exit after this many requests.")
def listen(port: int, secret_env: str | None, status: int, count: int | None) -> None:
    """Receive webhooks on this machine and print them.

    With --secret-env it also says whether each signature is correct. To deliver here, start the daemon with
    --allow-loopback and this port.
    """
    secret = _secret(secret_env)
    seen = 0

    class Receiver(BaseHTTPRequestHandler):
        def _receive(self) -> None:
            nonlocal seen
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(min(length, BODY_MAX))
            headers = {name.lower(): value for name, value in self.headers.items()}
            _print(self.command, self.path, headers, body, secret)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            seen += 1

        do_POST = do_PUT = do_PATCH = do_GET = _receive  # noqa: N815

        def log_message(self, *words: object) -> None:
            """Print nothing but the requests themselves."""

    try:
        server = ThreadingHTTPServer((HOST, port), Receiver)
    except OSError as error:
        raise BadConfig(f"cannot listen on {HOST}:{port}: {error.strerror}; choose another port with --port") from None
    server.timeout = 0.2
    echo(f"Listening on http://{HOST}:{server.server_port} (answers {status}). Press Ctrl-C to stop.")
    echo(f"To deliver here: holdfast up --allow-loopback {server.server_port}")
    try:
        while count is None or seen < count:
            server.handle_request()
    except KeyboardInterrupt:
        echo()
    finally:
        server.server_close()


def _secret(name: str | None) -> str | None:
    if name is None:
        return None
    secret = os.environ.get(name)
    if not secret:
        raise BadInput(f"the environment variable {name} is not set; export the signing secret in it")
    return secret


def _print(method: str, path: str, headers: Mapping[str, str], body: bytes, secret: str | None) -> None:
    echo(visible(f"{method} {path}  {len(body):,} bytes"))
    for name in SHOWN:
        if name in headers:
            echo(visible(f"  {name}: {headers[name]}"))
    if secret is not None:
        echo(f"  signature: {_judge(headers, body, secret)}")
    text = body[:TEXT_MAX].decode("utf-8", "replace")
    if text:
        echo(visible(f"  {text}") + (" …" if len(body) > TEXT_MAX else ""))


def _judge(headers: Mapping[str, str], body: bytes, secret: str) -> str:
    """Whether the signatures of a request verify with this secret."""
    if "webhook-signature" in headers:
        return "verified" if verify_standard([secret], headers, body, round(time.time())) else "WRONG"
    if "x-hook-signature" in headers:
        return "verified" if verify_hook([secret], body, headers["x-hook-signature"]) else "WRONG"
    return "missing"

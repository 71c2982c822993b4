"""Raw HTTP: bytes on a socket, for requests that no client library would send."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

ANSWER_S = 15.0
ANSWER_MAX = 64 * 1024 * 1024


class Answer(NamedTuple):
    """The response; status 0 if the connection was closed without one."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def head(method: str, path: str, token: str | None, **headers: str) -> bytes:
    """The head of a request to 127.0.0.1. Header names use _ for -, and None omits a header."""
    given: dict[str, str | None] = {"host": "127.0.0.1", "content-type": "application/json"}
    if token is not None:
        given["authorization"] = f"Bearer {token}"
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items() if value is not None)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def post(path: str, token: str | None, body: bytes, **headers: str) -> bytes:
    return head("POST", path, token, content_length=str(len(body)), connection="close", **headers) + body


def exchange(url: str, parts: bytes | Iterable[bytes]) -> Answer:
    """Send bytes, then read one response, also if the other side closes while we still send."""
    host = urlsplit(url)
    with socket.create_connection((host.hostname or "", host.port or 80), timeout=ANSWER_S) as line:
        try:
            for part in [parts] if isinstance(parts, bytes) else parts:
                line.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return read_answer(line)


def read_answer(line: socket.socket) -> Answer:
    raw = b""
    while b"\r\n\r\n" not in raw:
        if not (part := _receive(line)):
            return Answer(0, {}, raw)
        raw += part
    text, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = text.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = int(first.split()[1])
    if status == 100:
        return read_answer(line)
    while len(body) < int(headers.get("content-length", 0)) and len(body) < ANSWER_MAX:
        if not (part := _receive(line)):
            break
        body += part
    return Answer(status, headers, body)


def _receive(line: socket.socket) -> bytes:
    try:
        return line.recv(65536)
    except ConnectionResetError:
        return b""

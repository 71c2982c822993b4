"""Relays MCP on standard input and output to the daemon's `/mcp`.

An agent waits for the start of this process, so it uses the standard library only; the daemon has the SDK loaded.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import threading
from collections.abc import Callable
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit

from holdfast.domain.errors import HoldfastError
from holdfast.domain.json_value import Json, object_in, text_in

LINE_MAX = 16 * 1024 * 1024
ANSWER_MAX = 64 * 1024 * 1024
CONNECT_S = 5.0
ANSWER_S = 600.0  # verify_receipts reads the whole ledger
CONCURRENT_MAX = 8
FAILED = -32000
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"

_PLAIN = re.compile(r"[\x21-\x7e]+")


class Daemon(NamedTuple):
    """Where requests go, and the token they carry."""

    url: str
    token: str | None


class Relay:
    """Sends each line to the daemon and writes its answer as a line. `find` is called for every message, so that the
    relay survives a restart of the daemon."""

    def __init__(self, find: Callable[[], Daemon], outgoing: BinaryIO) -> None:
        self._find, self._outgoing = find, outgoing
        self._version: str | None = None  # as `initialize` negotiated it; HTTP has to repeat it
        self._writing = threading.Lock()
        self._places = threading.Semaphore(CONCURRENT_MAX)

    def run(self, incoming: BinaryIO) -> None:
        """Relay until the input ends, and wait for the answers under way."""
        threads: list[threading.Thread] = []
        while line := incoming.readline(LINE_MAX + 1):
            if len(line) > LINE_MAX:
                self._write(_error(None, f"a message is longer than {LINE_MAX:,} bytes"))
                return
            if not line.strip():
                continue
            message = _parse(line)
            if _method(message) == "initialize":
                self._answer(line, message)  # what follows depends on its version
                continue
            self._places.acquire()
            threads = [thread for thread in threads if thread.is_alive()]
            threads.append(threading.Thread(target=self._answer_and_free, args=(line, message), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def _answer_and_free(self, line: bytes, message: Json) -> None:
        try:
            self._answer(line, message)
        finally:
            self._places.release()

    def _answer(self, line: bytes, message: Json) -> None:
        id = message.get("id") if isinstance(message, dict) else None
        try:
            status, raw = self._post(line, message)
        except HoldfastError as error:
            answer: Json = _error(id, error.message)
        except (OSError, http.client.HTTPException) as error:
            answer = _error(
                id, f"the daemon does not answer ({str(error) or type(error).__name__}); see: holdfast doctor"
            )
        else:
            answer = _parse(raw)
            if not isinstance(answer, dict | list) or "detail" in answer:
                answer = None if status == 202 else _error(id, _detail(status, answer))
        if _method(message) == "initialize" and isinstance(answer, dict):
            self._version = text_in(object_in(answer, "result"), "protocolVersion")
        if answer is not None and (id is not None or isinstance(message, list) or message is None):
            self._write(answer)

    def _post(self, line: bytes, message: Json) -> tuple[int, bytes]:
        daemon = self._find()
        parts = urlsplit(daemon.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=CONNECT_S)
        try:
            connection.connect()
            connection.sock.settimeout(ANSWER_S)
            connection.request("POST", parts.path.rstrip("/") + "/mcp", line, self._headers(daemon.token, message))
            response = connection.getresponse()
            return response.status, response.read(ANSWER_MAX)
        finally:
            connection.close()

    def _headers(self, token: str | None, message: Json) -> dict[str, str]:
        """The headers of a request. Since 2026-07-28 each message names its version, and headers repeat it."""
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Connection": "close",
        }
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        params = object_in(message, "params") if isinstance(message, dict) else {}
        version, name = text_in(object_in(params, "_meta"), VERSION_KEY), text_in(params, "name")
        if version is not None:
            headers["Mcp-Method"] = _header(_method(message) or "")
            if name is not None:
                headers["Mcp-Name"] = _header(name)
        version = version or self._version
        if version is not None:
            headers["MCP-Protocol-Version"] = _header(version)
        return headers

    def _write(self, answer: Json) -> None:
        line = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        with self._writing:
            self._outgoing.write(line + b"\n")
            self._outgoing.flush()


def _parse(raw: bytes) -> Json:
    try:
        value: Json = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value


def _method(message: Json) -> str | None:
    method = message.get("method") if isinstance(message, dict) else None
    return method if isinstance(method, str) else None


def _header(value: str) -> str:
    """A header value; text that a header cannot hold is written as the protocol says."""
    return value if _PLAIN.fullmatch(value) else f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def _detail(status: int, answer: Json) -> str:
    detail = answer.get("detail") if isinstance(answer, dict) else None
    return f"the daemon refused the request ({status}): {detail or 'it is not a Holdfast daemon'}"


def _error(id: Json, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": FAILED, "message": message}}

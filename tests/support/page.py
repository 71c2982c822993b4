"""The web page of a daemon, visited without a browser: cookies, forms, and the text of answers."""

from __future__ import annotations

import http.client
import re
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from daemon import Daemon


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def text(self) -> str:
        return self.body.decode()


class Visitor:
    """Keeps cookies between requests, as a browser does."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon, self.cookie = daemon, ""

    def log_in(self) -> Answer:
        path = self.link()
        code = path.partition("code=")[2]
        return self.post("/login", code=code)

    def link(self) -> str:
        status, answer = self.daemon.request("POST", "/api/login-links")
        assert status == 200
        return str(answer["path"])

    def get(self, path: str, **headers: str) -> Answer:
        return self._send("GET", path, None, headers)

    def post(self, path: str, headers: dict[str, str] | None = None, **fields: object) -> Answer:
        return self._send("POST", path, urlencode(fields, doseq=True), headers or {})

    def _send(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> Answer:
        parts = urlsplit(self.daemon.url)
        sent = {"Host": parts.netloc, **({"Cookie": self.cookie} if self.cookie else {}), **headers}
        if body is not None:
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
            sent.setdefault("Origin", f"http://{parts.netloc}")
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            if match := re.match(r"([^=]+=[^;]*)", found.get("set-cookie", "")):
                self.cookie = match[1]
            return Answer(answer.status, answer.read(), found)
        finally:
            connection.close()

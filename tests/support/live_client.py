"""Clients of live views: server-sent events read from a socket, with a position to resume from."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from daemon import Daemon

READ_S = 60.0


class Message(NamedTuple):
    """One server-sent event. `event` is "message" unless it is named."""

    event: str
    id: str
    data: Any


class LiveClient:
    """One connection to a live view. `id` is the last position received; `comments` counts the heartbeats."""

    def __init__(self, daemon: Daemon, path: str, last_event_id: str | None = None, token: str | None = None) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(daemon.url).netloc, timeout=READ_S)
        headers = {"Authorization": f"Bearer {token or daemon.token}"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        self._connection.request("GET", path, headers=headers)
        self.response = self._connection.getresponse()
        self.id, self.comments = last_event_id or "", 0

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self.response.getheaders()}

    def problem(self) -> Any:
        return json.loads(self.response.read())

    def messages(self) -> Iterator[Message]:
        """Messages until the connection ends."""
        event, data = "message", ""
        while line := self.response.readline():
            text = line.decode().rstrip("\n")
            name, _, value = text.partition(": ")
            if name == "" and text.startswith(":"):
                self.comments += 1
            elif name == "id":
                self.id = value
            elif name == "event":
                event = value
            elif name == "data":
                data += value
            elif text == "" and data:
                yield Message(event, self.id, json.loads(data))
                event, data = "message", ""

    def take(self, count: int) -> list[Message]:
        """The next messages, so many."""
        messages = self.messages()
        return [next(messages) for _ in range(count)]

    def close(self) -> None:
        self.response.close()
        self._connection.close()

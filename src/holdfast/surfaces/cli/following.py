"""Follows a live view of the daemon from one connection to the next, and prints each event once."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping

import click

from holdfast.domain.errors import HoldfastError
from holdfast.domain.json_value import JsonObject
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.client import Client, Unreachable
from holdfast.surfaces.cli.output import encode_json, silence, warn

SILENCE_S = 45.0
"""A daemon sends a heartbeat every 15 seconds, so after this time the connection is lost."""
PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
KNOWN_MAX = 10_000

Line = Callable[[JsonObject], str]


class Position:
    """Where a client is in a live view. It moves with each event, and a new connection begins there.

    `connected` is called when the first connection is open: events that come from then on are not missed.
    """

    def __init__(
        self,
        path: str,
        query: Mapping[str, object],
        after: int | None,
        connected: Callable[[], None] = lambda: None,
    ) -> None:
        self.path, self.query = path, query
        self.last_event_id = None if after is None else str(after)
        self.complete = False
        self._connected = connected
        self._known: deque[str] = deque(maxlen=KNOWN_MAX)
        self._known_set: set[str] = set()

    def follow(self, client: Client) -> Iterator[JsonObject]:
        """The events of one connection, each once. Raises Unreachable if the connection fails."""
        with client.follow(self.path, self.query, self.last_event_id) as lines:
            self._connected()
            self._connected = lambda: None
            event, data, id = "", "", ""
            for line in lines:
                name, _, value = line.partition(": ")
                if name == "event":
                    event = value
                elif name == "data":
                    data = value
                elif name == "id":
                    id = value
                elif line == "" and data:
                    answer = json.loads(data)
                    if event == "end":
                        self.complete = True
                        return
                    if event == "error":
                        _fail(answer)
                    self.last_event_id = id
                    if self.is_new(answer["id"]):
                        yield answer
                    event, data = "", ""

    def is_new(self, id: str) -> bool:
        """Whether an event was not printed yet. A feed that resumes may repeat some."""
        if id in self._known_set:
            return False
        if len(self._known) == KNOWN_MAX:
            self._known_set.discard(self._known[0])
        self._known.append(id)
        self._known_set.add(id)
        return True


def follow_events(
    client: Client,
    position: Position,
    line: Line,
    limit: int | None,
    as_json: bool,
    wanted: Callable[[JsonObject], bool] = lambda event: True,
) -> None:
    """Print events until Ctrl-C, the end of the stream, or `limit` events. A lost connection is opened again."""
    client.answer_s = SILENCE_S
    try:
        _print_all(client, position, line, limit, as_json, wanted)
    except KeyboardInterrupt:
        if terminal.is_terminal():
            click.echo()


def _print_all(
    client: Client,
    position: Position,
    line: Line,
    limit: int | None,
    as_json: bool,
    wanted: Callable[[JsonObject], bool],
) -> None:
    printed = attempt = 0
    connected = False
    while True:
        try:
            for event in position.follow(client):
                connected, attempt = True, 0
                if not wanted(event):
                    continue
                if not print_event(event, line, as_json):
                    return
                printed += 1
                if printed == limit:
                    return
            connected = True
            if position.complete:
                return
        except Unreachable:
            if not connected:
                raise
        if attempt == 0:
            warn("the connection ended; resuming")
        time.sleep(PAUSES_S[min(attempt, len(PAUSES_S) - 1)])
        attempt += 1
        client = client.renew()


def print_event(event: JsonObject, line: Line, as_json: bool) -> bool:
    """False if nobody reads any more, as in `holdfast tail | head`."""
    try:
        click.echo(encode_json(event) if as_json else line(event))
    except BrokenPipeError:
        silence(1)
        return False
    return True


def _fail(answer: JsonObject) -> None:
    raise HoldfastError(str(answer.get("detail") or answer.get("title")))

"""HTTP: one POST for each batch, signed like a webhook. The receiver stores each event id once.

The URL comes from the configuration file, so private addresses are allowed; metadata services and link-local addresses
are not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from holdfast.domain.errors import BadConfig, BadInput, TargetRefused
from holdfast.domain.event import Event
from holdfast.domain.signature import check_signing, sign
from holdfast.net.answer import Answer, Disconnected
from holdfast.net.client import Client
from holdfast.net.guard import Guard
from holdfast.streams.sinks.settings import Settings, event_body
from holdfast.streams.sinks.sink import PublishFailed, SinkConfig
from holdfast.version import __version__

CONNECT_S = 5.0
REFUSED_FOR_GOOD = frozenset({400, 413, 422})
"""The receiver does not accept what was sent. Other errors, such as 401 or 404, are a matter of configuration."""


class HttpSink:
    """Sends `{"stream": …, "events": […]}`. Only a status from 200 to 299 confirms a batch."""

    def __init__(self, config: SinkConfig) -> None:
        self._settings = settings = Settings(config)
        self._secret = settings.text("secret")
        self._token = settings.text("token")
        self._total_s = settings.seconds("timeout_seconds", 15.0)
        settings.end()
        self._client = Client(Guard(), None, CONNECT_S)
        try:
            self._client.route(config.url, True)
            if self._secret:
                check_signing(self._secret)
        except BadInput as error:
            raise BadConfig(error.message) from None

    @property
    def name(self) -> str:
        return self._settings.config.name

    async def open(self) -> None:
        """Load the system's certificates. A connection is opened by the first batch."""
        await self._client.start()

    async def publish(self, stream: str, events: Sequence[Event], replay: bool = False) -> None:
        await self._client.start()
        status = await self._post(stream, events, replay)
        if status is None:
            return
        if status not in REFUSED_FOR_GOOD:
            raise self._settings.failed(f"the receiver answered {status}")
        if len(events) == 1:
            raise self._settings.failed(f"the receiver answered {status} to event {events[0].id}", poison=True)
        for done, event in enumerate(events):  # one of them is refused, or all together are too large
            try:
                await self.publish(stream, [event], replay)
            except PublishFailed as failed:
                failed.published = done
                raise

    async def _post(self, stream: str, events: Sequence[Event], replay: bool) -> int | None:
        """Send one request. Returns None if it was accepted, otherwise the status."""
        bodies = b",".join(event_body(event, replay) for event in events)
        body = b'{"stream":%b,"events":[%b]}' % (json.dumps(stream).encode(), bodies)
        headers = {
            "User-Agent": f"Holdfast/{__version__}",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {self._token}"} if self._token else {}),
            **sign([self._secret] if self._secret else [], f"{events[0].id}-{len(events)}", int(time.time()), body),
        }
        answer = Answer()
        try:
            route = self._client.route(self._settings.config.url, True)
            with self._client.timeout(answer, self._total_s, self._total_s):
                try:
                    await self._client.post(route, headers, body, answer)
                except Disconnected as error:
                    if not error.reused:
                        raise
                    await self._client.post(route, headers, body, answer, reuse=False)
        except TargetRefused as refused:
            raise self._settings.failed(refused.message) from None
        except Exception as error:
            raise self._settings.failed(self._client.describe(error, answer)) from None
        return None if answer.is_success else answer.status

    async def durability(self) -> str:
        return "The receiver decides: a status from 200 to 299 confirms a batch."

    async def close(self) -> None:
        await self._client.close()

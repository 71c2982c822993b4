"""NATS JetStream. The id of an event is its `Nats-Msg-Id`, so the server stores an event that is sent again once.

A batch is sent as one atomic batch where the JetStream stream allows it (`allow_atomic`, NATS 2.12): the server stores
all of it in order, or nothing. Elsewhere the events are sent one after the other without waiting, and only those before
the first missing acknowledgement count.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

from holdfast.domain.event import Event
from holdfast.ports import in_thread
from holdfast.streams.sinks.settings import Settings, event_body
from holdfast.streams.sinks.sink import PublishFailed, SinkConfig

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext
    from nats.js.api import StreamInfo

BATCH_MAX = 500
BATCHES_AT_ONCE = 16
"""The server accepts 50 unfinished atomic batches for a stream."""
HEADERS_BYTES = 512
"""Headers count toward the server's limit for a message."""
RECONNECT_S = 0.1
LOOK_S = 1.0
"""How long a lookup of the JetStream stream may take while it elects a leader."""
DEFAULT_SYNC_S = 120
_STORED_ALREADY = 10201
_TOO_LARGE = 10054

log = logging.getLogger("holdfast.streams")


class NatsSink:
    """Publishes to a JetStream stream, and creates it if there is none for the subject."""

    def __init__(self, config: SinkConfig) -> None:
        self._settings = settings = Settings(config)
        settings.needs("nats", "nats")
        template = str(config.options.get("subject", "holdfast.{stream}"))
        self._subject = settings.template("subject", "holdfast.{stream}", escape_token)
        self._subjects = ".".join("*" if "{stream}" in token else token for token in template.split("."))
        self._stream = settings.text("stream", "HOLDFAST_" + re.sub(r"[^A-Za-z0-9_-]", "_", config.name))
        self._create = settings.flag("create", True)
        self._replicas = settings.whole("replicas", 1, 1, 5)
        self._window_s = settings.seconds("duplicate_window_seconds", 3600)
        self._answer_s = settings.seconds("timeout_seconds", 5.0)
        self._credentials = settings.text("credentials_file")
        self._monitor = settings.text("monitor")
        settings.end()
        self._client: Client | None = None
        self._jetstream: JetStreamContext | None = None
        self._atomic = self._missing = False
        self._batches = asyncio.Semaphore(BATCHES_AT_ONCE)

    @property
    def name(self) -> str:
        return self._settings.config.name

    async def open(self) -> None:
        if self._client is not None:
            return
        from nats.aio.client import Client

        client = Client()
        try:
            async with asyncio.timeout(self._answer_s):
                await client.connect(
                    _servers(self._settings.config.url),
                    error_cb=self._on_error,
                    connect_timeout=1,
                    reconnect_time_wait=RECONNECT_S,  # type: ignore[arg-type]
                    max_reconnect_attempts=-1,
                    user_credentials=self._credentials or None,
                    name=f"holdfast:{self.name}",
                )
                jetstream = client.jetstream(timeout=self._answer_s)
                info = await self._find_stream(jetstream)
        except Exception as error:
            await _close(client)
            what = "no connection" if isinstance(error, TimeoutError) else error
            raise self._settings.failed(what) from None
        except BaseException:
            await _close(client)
            raise
        self._atomic, self._missing = bool(info.config.allow_atomic), False
        self._client, self._jetstream = client, jetstream

    async def _find_stream(self, jetstream: JetStreamContext) -> StreamInfo:
        """The JetStream stream that has the subject, or a new one."""
        from nats.js.api import StreamConfig
        from nats.js.errors import NotFoundError

        try:
            self._stream = await jetstream.find_stream_name_by_subject(self._subjects)
            return await jetstream.stream_info(self._stream)
        except NotFoundError:
            if not self._create:
                raise ValueError(f"no JetStream stream has the subject {self._subjects}; add one") from None
        return await jetstream.add_stream(
            StreamConfig(
                name=self._stream,
                subjects=[self._subjects],
                num_replicas=self._replicas,
                duplicate_window=self._window_s,
                allow_atomic=True,
            )
        )

    async def publish(self, stream: str, events: Sequence[Event], replay: bool = False) -> None:
        if self._client is None:
            await self.open()
        client = self._client
        assert client is not None
        if not client.is_connected:  # the client would keep the events and send them at any later time
            raise self._settings.failed("not connected")
        if self._missing:
            await self._recover_stream()
            client = self._client
            assert client is not None
        subject, run = self._subject(stream), secrets.token_hex(8) if replay else ""
        messages = [_Message(f"{event.id}/{run}" if run else event.id, event_body(event, replay)) for event in events]
        fitting = next((at for at, one in enumerate(messages) if _size(one, subject) > client.max_payload), len(events))
        done = 0
        while done < fitting:
            part = messages[done : min(fitting, done + BATCH_MAX)]
            try:
                async with self._batches:
                    await self._send(subject, part)
            except PublishFailed as failed:
                failed.published += done
                raise
            done += len(part)
        if fitting < len(events):
            size = f"event {events[fitting].id} is larger than the server's limit of {client.max_payload:,} bytes"
            raise self._settings.failed(size, fitting, poison=True)

    async def _recover_stream(self) -> None:
        """After no stream answered: it was removed, or it elects a leader and answers later."""
        from nats.js.errors import NotFoundError

        assert self._jetstream is not None
        try:
            async with asyncio.timeout(LOOK_S):
                await self._jetstream.find_stream_name_by_subject(self._subjects)
        except NotFoundError:
            log.warning("sink %s: no JetStream stream has the subject %s any more", self.name, self._subjects)
            await self.close()
            await self.open()
        except Exception as error:
            raise self._settings.failed(_describe(error)) from None
        self._missing = False

    async def _send(self, subject: str, messages: Sequence[_Message]) -> None:
        """Send one batch and wait for its acknowledgement. Raises PublishFailed."""
        from nats.errors import Error
        from nats.js.errors import APIError, NoStreamResponseError

        try:
            if len(messages) > 1 and self._atomic:
                try:
                    await self._send_atomic(subject, messages)
                except APIError as error:
                    if error.err_code != _STORED_ALREADY:
                        raise
                    await self._send_singly(subject, messages)  # a part of it is stored already
            elif len(messages) > 1:
                await self._send_pipelined(subject, messages)
            else:
                await self._send_singly(subject, messages)
        except (Error, OSError, TimeoutError) as error:
            self._missing = isinstance(error, NoStreamResponseError)
            raise self._settings.failed(_describe(error)) from None

    async def _send_atomic(self, subject: str, messages: Sequence[_Message]) -> None:
        client, jetstream, batch = self._client, self._jetstream, secrets.token_hex(16)
        assert client is not None
        assert jetstream is not None
        for number, message in enumerate(messages[:-1], start=1):
            await client.publish(subject, message.body, headers=message.headers(batch, number))
        last = messages[-1].headers(batch, len(messages)) | {"Nats-Batch-Commit": "1"}
        await jetstream.publish(subject, messages[-1].body, timeout=self._answer_s, headers=last)

    async def _send_singly(self, subject: str, messages: Sequence[_Message]) -> None:
        from nats.errors import Error
        from nats.js.errors import APIError, NoStreamResponseError

        jetstream = self._jetstream
        assert jetstream is not None
        for at, message in enumerate(messages):
            try:
                await jetstream.publish(subject, message.body, timeout=self._answer_s, headers=message.headers())
            except (Error, OSError, TimeoutError) as error:
                self._missing = isinstance(error, NoStreamResponseError)
                poison = isinstance(error, APIError) and error.err_code == _TOO_LARGE
                raise self._settings.failed(_describe(error), at, poison) from None

    async def _send_pipelined(self, subject: str, messages: Sequence[_Message]) -> None:
        """Acknowledgements may be lost for ever with their server, so the wait has a limit of its own."""
        from nats.js.errors import NoStreamResponseError

        jetstream = self._jetstream
        assert jetstream is not None
        answers = [
            await jetstream.publish_async(subject, one.body, wait_stall=self._answer_s, headers=one.headers())
            for one in messages
        ]
        _, missing = await asyncio.wait(answers, timeout=self._answer_s)
        for answer in missing:
            answer.cancel()
        for at, answer in enumerate(answers):
            if answer in missing:
                raise self._settings.failed(f"no acknowledgement within {self._answer_s:g} s", at)
            if error := answer.exception():
                self._missing = isinstance(error, NoStreamResponseError)
                for later in answers[at:]:
                    later.exception() if later.done() and not later.cancelled() else None
                raise self._settings.failed(_describe(error), at)

    async def durability(self) -> str:
        if self._client is None:
            await self.open()
        assert self._jetstream is not None
        try:
            info = await self._jetstream.stream_info(self._stream)
        except Exception as error:
            return self._settings.mask(f"The JetStream stream cannot be inspected ({_describe(error)}).")
        copies = "1 copy" if info.config.num_replicas in (None, 1) else f"{info.config.num_replicas} copies"
        storage = "memory only" if str(info.config.storage).endswith("memory") else "file storage"
        window_s = info.config.duplicate_window or 0
        kept = f"JetStream stream {self._stream}: {storage}, {copies}, repeats recognized for {window_s:g} s"
        return f"{kept}; {await self._describe_sync()}."

    async def _describe_sync(self) -> str:
        if not self._monitor:
            return f"files are synced every {DEFAULT_SYNC_S} s unless the server sets sync_interval"
        try:
            interval_s, always = await in_thread("files", lambda: _read_sync(self._monitor))
        except (OSError, ValueError, KeyError, TypeError) as error:
            return self._settings.mask(f"the monitoring port does not answer ({error})")
        return "files are synced before each acknowledgement" if always else f"files are synced every {interval_s:g} s"

    async def close(self) -> None:
        client, self._client, self._jetstream = self._client, None, None
        if client is not None:
            await _close(client)

    async def _on_error(self, error: Exception) -> None:
        log.info("sink %s: %s", self.name, self._settings.mask(_describe(error)))


class _Message:
    """One event as NATS gets it."""

    __slots__ = ("body", "id")

    def __init__(self, id: str, body: bytes) -> None:
        self.id, self.body = id, body

    def headers(self, batch: str | None = None, number: int = 0) -> dict[str, str]:
        own = {"Nats-Msg-Id": self.id}
        return own if batch is None else {**own, "Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}


def escape_token(stream: str) -> str:
    """A stream's name as one token of a subject. Names of different streams stay different.

    >>> escape_token("run:1"), escape_token("a.b *")
    ('run:1', 'a%2Eb%20%2A')
    """
    return quote(stream, safe=":@+=,!-_~").replace(".", "%2E")


def _size(message: _Message, subject: str) -> int:
    return len(message.body) + HEADERS_BYTES


def _servers(url: str) -> list[str]:
    """The URLs of a comma-separated list, `nats://user:password@a:4222,b:4222`."""
    scheme, _, rest = url.partition("://")
    credentials, at, hosts = rest.rpartition("@")
    return [f"{scheme}://{credentials}{at}{host.strip()}" for host in hosts.split(",") if host.strip()]


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _read_sync(monitor: str) -> tuple[float, bool]:
    """`sync_interval` in seconds, and whether every write is synced."""
    if urlsplit(monitor).scheme not in ("http", "https"):
        raise ValueError("monitor must be an http URL")
    with urlopen(f"{monitor.rstrip('/')}/jsz", timeout=5) as answer:  # noqa: S310
        config = json.loads(answer.read(1 << 20))["config"]
    return float(config.get("sync_interval", DEFAULT_SYNC_S * 1e9)) / 1e9, bool(config.get("sync_always"))


async def _close(client: Client) -> None:
    """Close without sending what is left in the client's buffer."""
    try:
        await client.close()
    except Exception as error:
        log.debug("a NATS connection could not be closed: %s", type(error).__name__)

"""Redis, Valkey and compatible servers: one Redis Stream per stream, or Pub/Sub.

An entry has the explicit id `<seq>-0`. Redis accepts ids only in ascending order, so an event that is sent again cannot
be stored twice. A batch is one transaction (MULTI): a server that refuses one command of it, for example because it is
out of memory, stores none of it, so that no later event gets in front of an earlier one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.domain.event import Event
from holdfast.streams.sinks.settings import Settings, event_body
from holdfast.streams.sinks.sink import SinkConfig

if TYPE_CHECKING:
    from redis.asyncio import Redis

CONNECTIONS_MAX = 16
CONNECT_S = 2.0
CHECKED_MAX = 10_000
_TOO_SMALL = "equal or smaller than the target stream top item"

log = logging.getLogger("holdfast.streams")

Value = bytes | bytearray | memoryview | str | int | float  # what the client library accepts


class RedisSink:
    """Publishes to Redis Streams (`XADD`), or with `mode: pubsub` to channels (`PUBLISH`)."""

    def __init__(self, config: SinkConfig) -> None:
        self._settings = settings = Settings(config)
        settings.needs("redis", "redis")
        self._key = settings.template("key", "holdfast:{stream}", str)
        self._pubsub = settings.choice("mode", "stream", "pubsub") == "pubsub"
        self._length_max = settings.whole("max_length", 100_000, 1, 2**31)
        self._answer_s = settings.seconds("timeout_seconds", 5.0)
        settings.end()
        self._redis: Redis | None = None
        self._checked: set[str] = set()

    @property
    def name(self) -> str:
        return self._settings.config.name

    async def open(self) -> None:
        if self._redis is not None:
            return
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        # The client's own retries are off: after a lost answer they would send the whole batch again, unseen.
        try:
            pool = BlockingConnectionPool.from_url(
                self._settings.config.url,
                max_connections=CONNECTIONS_MAX,
                timeout=self._answer_s,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=self._answer_s,
                socket_connect_timeout=CONNECT_S,
            )
        except ValueError as error:
            raise self._settings.failed(error) from None
        redis = Redis.from_pool(pool)
        try:
            await redis.ping()
        except Exception as error:
            await redis.aclose()
            raise self._settings.failed(error) from None
        self._redis = redis

    async def publish(self, stream: str, events: Sequence[Event], replay: bool = False) -> None:
        if self._redis is None:
            await self.open()
        assert self._redis is not None
        from redis.exceptions import RedisError

        try:
            if self._pubsub:
                await self._send(self._redis, stream, events, replay)
            elif replay:
                await self._add_replay(self._redis, stream, events)
            else:
                await self._add(self._redis, stream, events)
        except (RedisError, OSError, TimeoutError) as error:
            self._checked.clear()
            raise self._settings.failed(error) from None

    async def _add(self, redis: Redis, stream: str, events: Sequence[Event]) -> None:
        key, pipeline = self._key(stream), redis.pipeline(transaction=True)
        if events[0].seq > 1 and stream not in self._checked:
            await self._check_end(redis, key, stream, events[0].seq)
        for event in events:
            fields = _fields(event, event.body())
            pipeline.xadd(key, fields, id=f"{event.seq}-0", maxlen=self._length_max, approximate=True)
        answers = await pipeline.execute(raise_on_error=False)
        for place, (event, answer) in enumerate(zip(events, answers, strict=True)):
            if not isinstance(answer, Exception):
                continue
            if _TOO_SMALL not in str(answer):
                raise self._settings.failed(answer, place)
            if not await self._is_stored(redis, key, stream, event):
                raise self._settings.failed(
                    f"the key {key!r} holds another entry at or after {event.seq}-0, so event {event.id} cannot be "
                    "added in order; rename or delete the key, or set another `key`",
                    place,
                )

    async def _check_end(self, redis: Redis, key: str, stream: str, first: int) -> None:
        """Report confirmed events that the server has lost, once for each connection and stream."""
        last = await redis.xrevrange(key, count=1) or []
        end = int(_text(last[0][0]).partition("-")[0]) if last else first - 1
        if end < first - 1:
            log.warning(
                "sink %s: the server has lost the confirmed events %d to %d of stream %s; see: holdfast doctor",
                self.name, end + 1, first - 1, stream,
            )  # fmt: skip
        if len(self._checked) >= CHECKED_MAX:
            self._checked.clear()
        self._checked.add(stream)

    async def _is_stored(self, redis: Redis, key: str, stream: str, event: Event) -> bool:
        """Whether the server refused an entry because the same event is there, or was there and has been trimmed."""
        id = f"{event.seq}-0"
        found = await redis.xrange(key, id, id)
        if found:
            return (found[0][1] or {}).get(b"id") == event.id.encode()
        last = await redis.xrevrange(key, count=1) or []
        return any(_stream_of(fields or {}) == stream for _, fields in last)

    async def _add_replay(self, redis: Redis, stream: str, events: Sequence[Event]) -> None:
        """Ids only ascend, so repeated events go to a key of their own."""
        pipeline = redis.pipeline(transaction=True)
        for event in events:
            fields = _fields(event, event_body(event, True))
            pipeline.xadd(f"{self._key(stream)}:replay", fields, maxlen=self._length_max, approximate=True)
        await pipeline.execute()

    async def _send(self, redis: Redis, stream: str, events: Sequence[Event], replay: bool) -> None:
        pipeline = redis.pipeline(transaction=False)
        for event in events:
            pipeline.publish(self._key(stream), event_body(event, replay))
        answers = await pipeline.execute(raise_on_error=False)
        for place, answer in enumerate(answers):
            if isinstance(answer, Exception):
                raise self._settings.failed(answer, place)

    async def durability(self) -> str:
        if self._pubsub:
            return "Pub/Sub stores nothing: subscribers that are not connected miss events."
        if self._redis is None:
            await self.open()
        assert self._redis is not None
        from redis.exceptions import RedisError

        try:
            found = await self._redis.config_get("appendonly", "appendfsync", "save")
        except (RedisError, OSError, TimeoutError) as error:
            return self._settings.mask(f"The server does not show its settings ({error}).")
        return _describe_files(found)

    async def close(self) -> None:
        redis, self._redis = self._redis, None
        self._checked.clear()
        if redis is not None:
            await redis.aclose()


def _text(value: bytes | str | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def _fields(event: Event, body: bytes) -> dict[Value, Value]:
    return {"id": event.id, "type": event.type, "data": body}


def _stream_of(fields: Mapping[bytes | str, bytes | str]) -> str | None:
    try:
        stream = json.loads(fields[b"data"])["stream"]
    except (KeyError, TypeError, ValueError):
        return None
    return stream if isinstance(stream, str) else None


def _describe_files(found: Mapping[str | None, str | None]) -> str:
    if found.get("appendonly") != "yes":
        saved = f"snapshots ({found['save']})" if found.get("save") else "nothing"
        return f"The server writes {saved} to disk, no append-only file: a crash loses confirmed events."
    match found.get("appendfsync"):
        case "always":
            return "The server syncs its append-only file before it confirms an event (appendfsync always)."
        case "everysec":
            return "The server syncs its append-only file every second: a power loss loses up to two seconds of events."
    return "The server never syncs its append-only file by itself: a power loss loses confirmed events."

"""The event bus of a host application: `emit` returns when the event is durable.

await outbox.bus.emit("SESSION_STARTED", session_id="s1")
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from holdfast.domain.errors import BadInput
from holdfast.domain.event import Appended, NewEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.bridge import BusEvent, normalize, parse_kind
from holdfast.ingress.fork_lock import ForkLock
from holdfast.ingress.loop_thread import LoopThread
from holdfast.store.open import open_store
from holdfast.store.roles.events import Events
from holdfast.store.roles.store import Store

Listener = Callable[[BusEvent, Mapping[str, Json]], Awaitable[None]]

log = logging.getLogger("holdfast.bus")


class _Connection(NamedTuple):
    thread: LoopThread
    store: Store


class EventBus:
    """Appends the events of a host application to the store, where contracts match them.

    Inside `outbox.lifespan` the bus uses the store that is open there. Otherwise it opens a connection of its own at
    the first `emit`, also beside a running daemon. It may be used from any thread and any event loop. A forked child
    opens a connection of its own. On SQLite that is refused if the parent's connection was open at the fork.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._listeners: list[Listener] = []
        self._opening = ForkLock()
        self._connection: _Connection | None = None
        # Connections of the parent process: closing one in a forked child could damage the parent's.
        self._inherited: list[_Connection] = []
        self._shared: Callable[[], Events | None] | None = None
        self._shared_loop: asyncio.AbstractEventLoop | None = None

    def subscribe(self, listener: Listener) -> None:
        """Call `await listener(kind, fields)` in this process after each event was stored, in order of subscription.

        A listener is not durable: it misses what other processes emit, and an exception in it is only logged. Use
        `outbox.on` for a handler that receives every event.
        """
        self._listeners.append(listener)

    async def emit(self, kind: BusEvent | str, **fields: Json) -> Appended:
        """Store an event; it is durable when this returns. `BadInput` names a field that is missing or unknown."""
        event = normalize(kind, fields)
        if (events := self._shared_events()) is not None:
            appended = (await events.append([event]))[0]
        else:
            connection = self._usable
            if connection is None:
                connection = await asyncio.to_thread(self._open)
            appended = await asyncio.wrap_future(connection.thread.submit(_append(connection.store, event)))
        await self._notify(parse_kind(kind), fields)
        return appended

    def emit_now(self, kind: BusEvent | str, **fields: Json) -> Appended:
        """`emit` for code without an event loop: blocks until the event is durable."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise BadInput("emit_now() would block the running event loop; use: await outbox.bus.emit(…)")
        event = normalize(kind, fields)
        connection = self._open()
        appended = connection.thread.run(_append(connection.store, event))
        if self._listeners:
            asyncio.run(self._notify(parse_kind(kind), fields))
        return appended

    def close(self) -> None:
        """Close the bus's own connection, if it opened one. A later `emit` opens it again."""
        with self._opening:
            connection, self._connection = self._connection, None
        if connection is not None and connection.thread.is_alive:
            connection.thread.run(connection.store.close())
            connection.thread.stop()

    def share(self, events: Callable[[], Events | None] | None) -> None:
        """Use a store that is open on the running event loop, while `events` returns it. None: no longer."""
        self._shared = events
        self._shared_loop = None if events is None else asyncio.get_running_loop()

    def _shared_events(self) -> Events | None:
        """The shared store, if it belongs to the running loop: a store must not be used from another loop."""
        if self._shared is None or self._shared_loop is not asyncio.get_running_loop():
            return None
        return self._shared()

    @property
    def _usable(self) -> _Connection | None:
        connection = self._connection
        return connection if connection is not None and connection.thread.is_alive else None

    def _open(self) -> _Connection:
        with self._opening:
            if (connection := self._usable) is None:
                if self._connection is not None:
                    self._inherited.append(self._connection)
                # The tables are not created here: with a wrong path, events would go into a new, empty file.
                store = open_store(self._url, driver="sqlite3", own=False, create=False, what="an event bus")
                connection = self._connection = _Connection(LoopThread("holdfast-bus"), store)
            return connection

    async def _notify(self, kind: BusEvent, fields: Mapping[str, Json]) -> None:
        for listener in self._listeners:
            try:
                await listener(kind, fields)
            except Exception:
                log.exception("a bus listener failed on %s; the event is stored", kind)


async def _append(store: Store, event: NewEvent) -> Appended:
    return (await store.events.append([event]))[0]

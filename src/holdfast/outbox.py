"""The facade users import: publish inside your own transaction, and handle events durably.

    from holdfast import Outbox

    outbox = Outbox("sqlite:///app.db")

    with connection:                                # your connection, your transaction
        connection.execute("insert into orders …")
        outbox.publish(connection, "order.placed", {"id": 42}, stream="order:42")

    @outbox.on("order.*")
    async def ship(event, delivery): ...

Then `holdfast up --app module:outbox`, or `FastAPI(lifespan=outbox.lifespan)`, delivers.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack

from holdfast.domain.address import parse_address
from holdfast.domain.contract import (
    Contract,
    Criterion,
    check_contract_id,
    parse_criteria,
    parse_criterion,
)
from holdfast.domain.errors import BadInput
from holdfast.domain.event import check_name
from holdfast.domain.json_value import Json
from holdfast.domain.registered_contracts import RegisteredContracts
from holdfast.domain.store_url import check_store_url
from holdfast.domain.text import short_repr
from holdfast.home import masked_url
from holdfast.operations.outbox_calls import OutboxCalls
from holdfast.streams.reading import Reading

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime
    from types import FrameType

    from sqlalchemy import MetaData, Table

    from holdfast.agents.messages.outgoing import MessageFields
    from holdfast.domain.inbound_event import HookEvent
    from holdfast.ingress.bus import EventBus
    from holdfast.ingress.inbox import Once
    from holdfast.ingress.publish import Published
    from holdfast.ingress.stream_log import StreamLog
    from holdfast.store.door import Tables
    from holdfast.surfaces.mounted import Auth, MountedApp

F = TypeVar("F", bound=Callable[..., object])


class EventFields(TypedDict, total=False):
    """The optional fields of an event, beside its type and payload.

    `stream` orders the event after those already in that stream. With `dedup`, publishing the same event again returns
    the first one. `at` delays it. `to` is a direct address, in addition to the contracts. Contracts match `properties`.
    """

    stream: str | None
    dedup: str | None
    source: str
    properties: Mapping[str, Json] | None
    timestamp: str | datetime | None
    to: str | None
    at: datetime | None


class Outbox(Reading, OutboxCalls):
    """An outbox in your database. Creating one opens no connection.

    A contract stores the module that registered it. It is retired when a process starts that has loaded the module but
    in which the module no longer registers the contract. `application` keeps services apart that share a database and
    have modules of the same name.
    """

    def __init__(self, url: str, *, application: str | None = None) -> None:
        self.url = check_store_url(url)
        self._prefix = "" if application is None else f"{check_contract_id(application)}/"
        self.handlers: dict[str, Callable[..., object]] = {}
        self.normalizers: dict[str, Callable[..., HookEvent | Sequence[HookEvent]]] = {}
        self._module = _calling_module()
        self.contracts = RegisteredContracts(self._prefix + self._module)

    def modules(self) -> frozenset[str]:
        """The modules that this process has loaded, as contracts name them in `registered_by`."""
        return frozenset(self._prefix + (_script_name() if name == "__main__" else name) for name in list(sys.modules))

    def publish(
        self, connection: object, type: str, payload: object = None, **fields: Unpack[EventFields]
    ) -> Published:  # fmt: skip
        """Append an event in the caller's transaction: one statement, never a commit.

            outbox.publish(connection, "order.placed", {"id": 42}, stream="order:42", dedup="order-42-placed")

        The connection is the one your transaction runs on; `docs/applications/publish.md` lists the supported kinds.
        """
        from holdfast.ingress.publish import event_from_call, publish

        return publish(connection, event_from_call(type, payload, fields), self._tables)

    async def publish_async(
        self, connection: object, type: str, payload: object = None, **fields: Unpack[EventFields]
    ) -> Published:
        """The same on a connection that is awaited."""
        from holdfast.ingress.publish import event_from_call, publish_async

        return await publish_async(connection, event_from_call(type, payload, fields), self._tables)

    def publish_many(self, connection: object, events: Sequence[Mapping[str, Json]]) -> list[Published]:
        """Append several events, each a mapping with the names that `publish` takes.

            outbox.publish_many(connection, [{"type": "order.placed", "payload": {"id": 1}, "stream": "order:1"}])

        Streams are locked in sorted order, so that two such calls cannot deadlock.
        """
        from holdfast.ingress.publish import event_from_mapping, publish_many

        return publish_many(connection, [event_from_mapping(fields) for fields in events], self._tables)

    async def publish_many_async(self, connection: object, events: Sequence[Mapping[str, Json]]) -> list[Published]:
        """The same on a connection that is awaited."""
        from holdfast.ingress.publish import event_from_mapping, publish_many_async

        return await publish_many_async(connection, [event_from_mapping(fields) for fields in events], self._tables)

    def stream(self, name: str) -> StreamLog:
        """A stream as an ordered log: append with an expected `seq`, and close it.

            outbox.stream("run:1").append(connection, "step.done", {"step": 3})

        `docs/applications/streams.md` shows how to append, read and publish streams.
        """
        from holdfast.ingress.stream_log import StreamLog

        return StreamLog(name, self._tables)

    def send(self, connection: object, session: str, text: str, **fields: Unpack[MessageFields]) -> Published:
        """Send a message to an agent session in the caller's transaction: `outbox.send(conn, "backend", "hi")`."""
        from holdfast.agents.messages.outgoing import queued_message
        from holdfast.ingress.publish import publish

        return publish(connection, queued_message(session, text, fields), self._tables)

    def once(self, connection: object, event_id: str, *, consumer: str) -> Once:
        """Handle an event once, although it may arrive again. Use `with`, or `async with` on an awaited connection.

        with outbox.once(connection, event.id, consumer="billing") as first:
            if first: ...
        """
        from holdfast.ingress.inbox import Once

        return Once(connection, event_id, consumer, self._tables)

    def on(
        self,
        pattern: str,
        *,
        name: str | None = None,
        source: object = None,
        properties: Mapping[str, Json] | None = None,
        policy: str | None = None,
        attempts: int | None = None,
        ordered: bool = False,
        timeout: float | None = None,
        concurrency: int | None = None,
    ) -> Callable[[F], F]:
        """Register a durable handler: a function, and a contract that matches the events it receives.

        @outbox.on("order.*")
        async def ship(order: Order): ...       # a pydantic model, or Event; raise Reject("why") or RetryAfter(30)
        """
        _check_pattern(pattern)
        if policy is not None:
            check_name(policy, "policy")  # whether it exists depends on the configuration where the application runs

        def register(function: F) -> F:
            from holdfast.egress.handler.deliverer import make_handler

            make_handler(function)
            key = name or function.__name__
            if key in self.handlers:
                raise BadInput(f"a handler named {key!r} is registered already; give this one another name=")
            contract = Contract(
                id=check_contract_id(key),
                address=parse_address(f"handler:{key}"),
                type_criterion=Criterion(pattern=pattern),
                source_criterion=None if source is None else parse_criterion(source, "source"),
                properties=parse_criteria(properties or {}, "properties"),
                source="programmatic",
                policy=policy,
                attempts=attempts,
                ordered=ordered,
                timeout_s=timeout,
                concurrency=concurrency,
                registered_by=self._registered_by(function),
            )
            self.handlers[key] = function
            self.contracts.register(contract)
            return function

        return register

    def _registered_by(self, function: Callable[..., object]) -> str | None:
        module = getattr(function, "__module__", None)
        return None if module is None else self._prefix + (_script_name() if module == "__main__" else str(module))

    def lifespan(self, app: object = None) -> AbstractAsyncContextManager[None]:
        """Deliver inside your application for as long as it runs.

            app = FastAPI(lifespan=outbox.lifespan)

        With a lifespan of your own: `async with outbox.lifespan(app): yield`.
        """
        return self._lifespan()

    def asgi(self, auth: Auth | None = None) -> MountedApp:
        """REST and the web page, for your own application: `app.mount("/holdfast", outbox.asgi(auth=may))`.

        `auth` gets the request and returns the scopes of the visitor, such as `{"read", "operate"}`, or None. Without
        it, the tokens of the store apply: `holdfast token create`.
        """
        from holdfast.surfaces.mounted import MountedApp

        return MountedApp(self.url, auth)

    @asynccontextmanager
    async def _lifespan(self) -> AsyncIterator[None]:
        from holdfast.daemon.lifespan import working

        async with working(self) as workers:
            self.bus.share(lambda: workers.events)
            try:
                yield
            finally:
                self.bus.share(None)
                self.bus.close()

    @cached_property
    def bus(self) -> EventBus:
        """The event bus of a host application: its events become durable, and contracts match them.

            await outbox.bus.emit("SESSION_STARTED", session_id="s1")

        `docs/applications/bus.md` lists the six kinds and their fields.
        """
        from holdfast.ingress.bus import EventBus

        return EventBus(self.url)

    def migrate(self) -> None:
        """Create or update Holdfast's tables in your database. Safe to repeat."""
        from holdfast.store.open import migrate_store

        migrate_store(self.url, own=False, driver="sqlite3")

    def table(self, metadata: MetaData) -> Table:
        """The events as a SQLAlchemy `Table`, for your own queries.

        events = outbox.table(MetaData())
        session.execute(select(events.c.type, events.c.payload).order_by(events.c.n))
        """
        from holdfast.store.table import events_table

        return events_table(metadata, self.url, self._tables.schema)

    @cached_property
    def _tables(self) -> Tables:
        from holdfast.ingress.publish import tables_of

        return tables_of(self.url, self._how_to_create)

    def _how_to_create(self) -> str:
        """How the tables of this outbox are created, for an error message: as far as it can be seen from here."""
        module = self._module
        defined = list(vars(sys.modules.get(module) or sys.modules["__main__"]).items())
        names = [name for name, value in defined if value is self]
        option = f"--app {module}:{names[0]}" if names else f"--store {masked_url(self.url)}"
        if Path("alembic.ini").exists():
            return (
                "add a revision with holdfast.alembic.upgrade(op) and run: alembic upgrade head (or without Alembic: "
                f"holdfast db migrate {option})"
            )
        return f"run: holdfast db migrate {option} (or call outbox.migrate() once)"

    def prepare(self, connection: object) -> None:
        """Set your own SQLite connection up for durability: WAL, synchronous=FULL, no automatic checkpoints.

        Call it before a transaction begins. On PostgreSQL it changes nothing.
        """
        from holdfast.ingress.caller import prepare

        prepare(connection)

    async def prepare_async(self, connection: object) -> None:
        """The same on a connection that is awaited."""
        from holdfast.ingress.caller import prepare_async

        await prepare_async(connection)

    def check(self, connection: object) -> list[str]:
        """The settings of your SQLite connection that weaken durability; empty when all are right."""
        from holdfast.ingress.caller import check

        return check(connection)

    async def check_async(self, connection: object) -> list[str]:
        """The same on a connection that is awaited."""
        from holdfast.ingress.caller import check_async

        return await check_async(connection)


def _check_pattern(pattern: object) -> None:
    if not isinstance(pattern, str):
        got = f"the function {pattern.__name__}" if isinstance(pattern, FunctionType) else short_repr(pattern)
        raise BadInput(f'write @outbox.on("order.*"), with the pattern of the event types; on() got {got}')


def _calling_module() -> str:
    """The first caller outside this package. A module that is run as a script has the name of its file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name == "__main__":
            return _script_name()
        if name.partition(".")[0] != "holdfast":
            return name[-100:].lstrip(".") or "application"
        frame = frame.f_back
    return "application"


def _script_name() -> str:
    """The name of the file that is run as a script, as if it had been imported."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).stem if file else "application"

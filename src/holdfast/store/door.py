"""The door: statements that publish and receive on the caller's own connection, in the caller's transaction.

Every verb is a generator that yields statements and is sent their rows. `run_on` runs a verb on a blocking connection,
`run_on_async` on one that is awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from holdfast.domain.cursor import Cursor
from holdfast.domain.errors import BadInput, Conflict, NotFound
from holdfast.domain.event import SOURCE_DEFAULT, Appended, NewEvent, iso_time
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.store_url import is_postgres
from holdfast.domain.text import short_repr
from holdfast.store.drivers import DOLLAR, FORMAT, POSTGRES, SQLITE, Calls, Row, Statement, async_driver, sync_driver
from holdfast.store.faults import translated
from holdfast.store.postgres.place import SCHEMA_DEFAULT, in_schema, parse_place
from holdfast.store.sqlite.statements import sql as sqlite
from holdfast.store.statements import Statements

T = TypeVar("T")
P = ParamSpec("P")
Steps = Generator[Statement, Sequence[Row], T]

PUBLISH = Calls()
_own = Statements("holdfast.store")
_TEXTS = {
    SQLITE: {
        "publish": sqlite.event_append,
        "first": sqlite.event_first,
        "inbox_add": _own.sqlite_inbox_add,
        "inbox_forget": _own.sqlite_inbox_forget,
        "append_expected": _own.sqlite_append_expected,
        "appended": _own.sqlite_appended,
        "stream_head": _own.sqlite_stream_head,
        "stream_close": _own.sqlite_stream_close,
        "cursor_ensure": _own.sqlite_cursor_ensure,
        "cursor_get": _own.sqlite_cursor_get,
        "cursor_advance": _own.sqlite_cursor_advance,
    },
    POSTGRES: {
        "publish": _own.postgres_publish,
        "inbox_add": _own.postgres_inbox_add,
        "inbox_forget": _own.postgres_inbox_forget,
        "append": _own.postgres_append,
        "stream_close": _own.postgres_stream_close,
        "cursor_ensure": _own.postgres_cursor_ensure,
        "cursor_get": _own.postgres_cursor_get,
        "cursor_advance": _own.postgres_cursor_advance,
    },
}


_SHORT_FIELDS = ("type", "payload")
_DEFAULTS = NewEvent("", b"")[2:]


class Published(NamedTuple):
    """The event's id, and whether its dedup key was known already. It exists once the caller's transaction commits."""

    id: str
    duplicate: bool = False


class Tables(NamedTuple):
    """The tables of one outbox: PostgreSQL schema, kind of database (None: any), and how they are created."""

    schema: str
    dialect: str | None = None
    create: Callable[[], str] | None = None


class Door:
    """The verbs of the door in one dialect, with the parameter style of one driver."""

    def __init__(self, dialect: str, marks: str, schema: str) -> None:
        self.dialect, self._marks, self.schema = dialect, marks, schema
        self._brief = _publish_text(_SHORT_FIELDS, marks, schema)

    def publish(self, event: NewEvent, now_ms: int, entropy: bytes) -> Steps[Published]:
        """Append one event: one statement, and on SQLite a second one that looks up the dedup key, if there is one.

        `entropy` is `ENTROPY_BYTES` long. PostgreSQL uses neither it nor `now_ms`: its function makes time and id.
        """
        if self.dialect == POSTGRES:
            rows = yield self._publish(event)
            return Published(*rows[0])
        id = event.id or make_id("evt", now_ms, entropy)
        yield self._statement("publish", _sqlite_row(event, id, now_ms))
        if event.dedup_key is None:
            return Published(id)
        # An INSERT through a view cannot return what its trigger did.
        rows = yield self._statement("first", (event.source, event.dedup_key))
        return Published(rows[0][0], duplicate=rows[0][0] != id)

    def publish_many(self, events: Sequence[NewEvent], now_ms: int, entropy: bytes) -> Steps[list[Published]]:
        """Append several. Every caller locks streams in sorted order; the answers come in the order of `events`.

        `entropy` is `ENTROPY_BYTES` for each event.
        """
        answers: dict[int, Published] = {}
        for i in sorted(range(len(events)), key=lambda i: _lock_order(events[i])):
            own_entropy = entropy[i * ENTROPY_BYTES : (i + 1) * ENTROPY_BYTES]
            answers[i] = yield from self.publish(events[i], now_ms, own_entropy)
        return [answers[i] for i in range(len(events))]

    def append(self, event: NewEvent, expected_seq: int | None, now_ms: int, entropy: bytes) -> Steps[Appended]:
        """Append one event to its stream and return its `seq`. Raises Conflict if that is not the expected one.

        On PostgreSQL the conflict ends the caller's transaction.
        """
        if self.dialect == POSTGRES:
            rows = yield self._append(event, expected_seq)
            return Appended(*rows[0][:4])
        id = event.id or make_id("evt", now_ms, entropy)
        row = _sqlite_row(event, id, now_ms)
        if expected_seq is None:
            yield self._statement("publish", row)
        else:
            place = (event.stream, expected_seq, event.source, event.dedup_key)
            yield self._statement("append_expected", (*row, *place))
        if event.dedup_key is not None:
            first = yield self._statement("first", (event.source, event.dedup_key))
            if first and first[0][0] != id:
                return Appended(first[0][0], first[0][1] or first[0][0], first[0][2], duplicate=True)
        rows = yield self._statement("appended", (id,))
        if not rows:
            head = yield self._statement("stream_head", (event.stream,))
            found = f"its last event is {head[0][0]}" if head else "it has no event yet"
            raise Conflict(f"event {expected_seq} cannot be appended to stream {short_repr(event.stream)}: {found}")
        return Appended(*rows[0])

    def close_stream(self, event: NewEvent, now_ms: int, entropy: bytes) -> Steps[Appended]:
        """Append the last event of a stream and close the stream."""
        appended = yield from self.append(event, None, now_ms, entropy)
        values = (event.stream,) if self.dialect == POSTGRES else (now_ms, event.stream)
        yield self._statement("stream_close", values)
        return appended

    def ensure_cursor(self, reader: str, stream: str, position: int, now_ms: int) -> Steps[Cursor]:
        """The cursor of a reader, created at a position if there is none."""
        yield self._statement("cursor_ensure", (reader, stream, position, now_ms))
        rows = yield self._statement("cursor_get", (reader, stream))
        return Cursor(*rows[0])

    def get_cursor(self, reader: str, stream: str) -> Steps[Cursor | None]:
        rows = yield self._statement("cursor_get", (reader, stream))
        return Cursor(*rows[0]) if rows else None

    def advance_cursor(
        self, reader: str, stream: str, position: int, expected: int | None, now_ms: int
    ) -> Steps[Cursor]:
        """Move a cursor forward. Raises Conflict if it is past the position, or not at the expected one."""
        least, most = (0, position) if expected is None else (expected, expected)
        rows = yield self._statement("cursor_advance", (position, now_ms, reader, stream, least, most))
        if rows:
            return Cursor(reader, stream, position, now_ms)
        found = yield self._statement("cursor_get", (reader, stream))
        if not found:
            raise NotFound(
                f"reader {short_repr(reader)} has no cursor on {short_repr(stream)}; call ensure_cursor first"
            )
        at = found[0][2]
        wanted = f"it cannot move back to {position}" if expected is None else f"{expected} was expected"
        raise Conflict(f"reader {short_repr(reader)} is at {at} in {short_repr(stream)}; {wanted}")

    def receive(self, consumer: str, event_id: str, now_ms: int) -> Steps[bool]:
        """Record that a consumer handles an event; True if that was not recorded before."""
        rows = yield self._statement("inbox_add", (consumer, event_id, now_ms))
        return bool(rows)

    def forget(self, consumer: str, event_id: str) -> Steps[None]:
        """Remove such a record."""
        yield self._statement("inbox_forget", (consumer, event_id))

    def _publish(self, event: NewEvent) -> Statement:
        if event[2:] == _DEFAULTS:
            return self._brief, (event.type, event.payload.decode())
        fields = _given_fields(event)
        return _publish_text(tuple(fields), self._marks, self.schema), tuple(fields.values())

    def _append(self, event: NewEvent, expected_seq: int | None) -> Statement:
        fields = _given_fields(event)
        return _append_text(tuple(fields), self._marks, self.schema), (expected_seq, *fields.values())

    def _statement(self, verb: str, params: tuple[Any, ...]) -> Statement:
        return _text(self.dialect, verb, self._marks, self.schema), params


@lru_cache(maxsize=64)
def _door(dialect: str, marks: str, schema: str) -> Door:
    return Door(dialect, marks, schema)


def run_on(
    connection: Any,
    tables: Tables,
    calls: Calls,
    verb: Callable[Concatenate[Door, P], Steps[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run a verb in the transaction this connection is in. `calls` are the names for an error message."""
    driver, connection = sync_driver(connection, calls)
    if driver.dialect != tables.dialect and tables.dialect is not None:
        _check_database(connection, driver.dialect, tables.dialect, calls.sync)
    steps = verb(_door(driver.dialect, driver.marks, tables.schema), *args, **kwargs)
    rows: Any = None  # starts the generator
    while True:
        try:
            sql, params = steps.send(rows)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        try:
            rows = driver.rows(connection, sql, params)
        except Exception as error:
            if (known := translated(error, tables.create)) is not None:
                raise known from error
            raise


async def run_on_async(
    connection: Any,
    tables: Tables,
    calls: Calls,
    verb: Callable[Concatenate[Door, P], Steps[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run a verb in the transaction this awaited connection is in."""
    driver, connection = await async_driver(connection, calls)
    if driver.dialect != tables.dialect and tables.dialect is not None:
        _check_database(connection, driver.dialect, tables.dialect, calls.awaited)
    steps = verb(_door(driver.dialect, driver.marks, tables.schema), *args, **kwargs)
    rows: Any = None  # starts the generator
    while True:
        try:
            sql, params = steps.send(rows)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        try:
            rows = await driver.rows(connection, sql, params)
        except Exception as error:
            if (known := translated(error, tables.create)) is not None:
                raise known from error
            raise


def tables_of(url: str, create: Callable[[], str] | None = None) -> Tables:
    """The tables of the store at a URL; an empty URL stands for any database, with the default schema."""
    dialect = POSTGRES if is_postgres(url) else SQLITE if url.startswith("sqlite:") else None
    return Tables(schema_of(url), dialect, create)


def schema_of(url: str) -> str:
    """The PostgreSQL schema a store's URL names.

    >>> schema_of("postgresql://db/app?schema=jobs"), schema_of("sqlite:///app.db")
    ('jobs', 'holdfast')
    """
    return parse_place(url).schema if is_postgres(url) else SCHEMA_DEFAULT


def _check_database(connection: object, given: str, wanted: str, call: str) -> None:
    """Refuse a connection to another kind of database, unless it is the one of a test's recording outbox."""
    if getattr(connection, "replaces_any_database", False):
        return
    names = {SQLITE: "SQLite", POSTGRES: "PostgreSQL"}
    raise BadInput(
        f"{call} got a connection to {names[given]}, but this outbox is in {names[wanted]}: pass a connection to the "
        "database that the outbox's URL names"
    )


def _sqlite_row(event: NewEvent, id: str, now_ms: int) -> tuple[Any, ...]:
    return (
        id, event.type, event.payload.decode(), event.source, event.stream, event.timestamp or iso_time(now_ms),
        event.properties.decode(), event.dedup_key, event.to, event.not_before_ms, now_ms, _digest(event),
    )  # fmt: skip


def _given_fields(event: NewEvent) -> dict[str, Any]:
    """The fields of an event that differ from the defaults, by the names of the door's arguments."""
    fields: dict[str, Any] = {"type": event.type, "payload": event.payload.decode()}
    if event.source != SOURCE_DEFAULT:
        fields["source"] = event.source
    if event.properties != b"{}":
        fields["properties"] = event.properties.decode()
    others = (
        ("stream", event.stream), ("timestamp", event.timestamp), ("dedup_key", event.dedup_key), ("to", event.to),
        ("not_before", event.not_before_ms), ("id", event.id), ("digest", _digest(event)),
    )  # fmt: skip
    for name, value in others:
        if value is not None:
            fields[name] = value
    return fields


@lru_cache(maxsize=1024)
def _publish_text(names: tuple[str, ...], marks: str, schema: str) -> str:
    return _marked(in_schema(_TEXTS[POSTGRES]["publish"], schema).replace("...", _arguments(names)), marks)


@lru_cache(maxsize=1024)
def _append_text(names: tuple[str, ...], marks: str, schema: str) -> str:
    return _marked(in_schema(_TEXTS[POSTGRES]["append"], schema).replace("...", _arguments(names)), marks)


def _arguments(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}" => ?::{"bigint" if name == "not_before" else "text"}' for name in names)


@lru_cache(maxsize=256)
def _text(dialect: str, verb: str, marks: str, schema: str) -> str:
    text = _TEXTS[dialect][verb]
    return _marked(in_schema(text, schema) if dialect == POSTGRES else text, marks)


def _digest(event: NewEvent) -> str | None:
    return event.digest if event.dedup_key is not None else None


def _lock_order(event: NewEvent) -> tuple[bool, str]:
    """Sorting is stable, so the order within a stream stays; events without a stream can only conflict by key."""
    return event.stream is not None, event.stream or event.dedup_key or ""


def _marked(text: str, marks: str) -> str:
    """The statement with its `?` in the driver's parameter style. Our statements contain no other question marks."""
    if marks == FORMAT:
        return text.replace("?", "%s")
    if marks == DOLLAR:
        head, *tails = text.split("?")
        return head + "".join(f"${number}{tail}" for number, tail in enumerate(tails, 1))
    return text

"""The door: statements that publish and receive on the caller's own connection, in the caller's transaction.

Every verb is a generator that yields statements and is sent their rows. `run_on` runs a verb on a blocking connection,
`run_on_async` on one that is awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from holdfast.domain.event import SOURCE_DEFAULT, NewEvent, iso_time
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.store.drivers import DOLLAR, FORMAT, POSTGRES, SQLITE, Calls, Row, Statement, async_driver, sync_driver
from holdfast.store.faults import translated
from holdfast.store.postgres.place import SCHEMA_DEFAULT, SCHEMES, in_schema, parse_place
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
    },
    POSTGRES: {
        "publish": _own.postgres_publish,
        "inbox_add": _own.postgres_inbox_add,
        "inbox_forget": _own.postgres_inbox_forget,
    },
}


_BRIEF = ("type", "payload")
_DEFAULTS = NewEvent("", b"")[2:]


class Published(NamedTuple):
    """The event's id, and whether its dedup key was known already. It exists once the caller's transaction commits."""

    id: str
    duplicate: bool = False


class Door:
    """The verbs of the door in one dialect, with the parameter style of one driver."""

    def __init__(self, dialect: str, marks: str, schema: str) -> None:
        self.dialect, self._marks, self.schema = dialect, marks, schema
        self._brief = _publish_text(_BRIEF, marks, schema)

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

    def _statement(self, verb: str, params: tuple[Any, ...]) -> Statement:
        return _text(self.dialect, verb, self._marks, self.schema), params


@lru_cache(maxsize=64)
def _door(dialect: str, marks: str, schema: str) -> Door:
    return Door(dialect, marks, schema)


def run_on(
    connection: Any,
    schema: str,
    calls: Calls,
    verb: Callable[Concatenate[Door, P], Steps[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run a verb in the transaction this connection is in. `calls` are the names for an error message."""
    driver, connection = sync_driver(connection, calls)
    steps = verb(_door(driver.dialect, driver.marks, schema), *args, **kwargs)
    rows: Any = None  # starts the generator
    while True:
        try:
            sql, params = steps.send(rows)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        try:
            rows = driver.rows(connection, sql, params)
        except Exception as error:
            if (known := translated(error)) is not None:
                raise known from error
            raise


async def run_on_async(
    connection: Any,
    schema: str,
    calls: Calls,
    verb: Callable[Concatenate[Door, P], Steps[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run a verb in the transaction this awaited connection is in."""
    driver, connection = await async_driver(connection, calls)
    steps = verb(_door(driver.dialect, driver.marks, schema), *args, **kwargs)
    rows: Any = None  # starts the generator
    while True:
        try:
            sql, params = steps.send(rows)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        try:
            rows = await driver.rows(connection, sql, params)
        except Exception as error:
            if (known := translated(error)) is not None:
                raise known from error
            raise


def schema_of(url: str) -> str:
    """The PostgreSQL schema a store's URL names.

    >>> schema_of("postgresql://db/app?schema=jobs"), schema_of("sqlite:///app.db")
    ('jobs', 'holdfast')
    """
    return parse_place(url).schema if url.partition(":")[0] in SCHEMES else SCHEMA_DEFAULT


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
    given = ", ".join(f'"{name}" => ?::{"bigint" if name == "not_before" else "text"}' for name in names)
    return _marked(in_schema(_TEXTS[POSTGRES]["publish"], schema).replace("...", given), marks)


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

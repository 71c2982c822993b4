"""The door of the caller's database: statements built here, run on the caller's own connection.

Every verb is written once, as a generator that yields statements and is sent their rows; `through` carries it out on
a connection that blocks, `through_async` on one that is awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from holdfast.domain.event import NewEvent, iso_time
from holdfast.store.drivers import DOLLAR, FORMAT, SQLITE, Driver, Row, Statement, async_driver, sync_driver
from holdfast.store.faults import translated
from holdfast.store.sqlite.statements import Statements

T = TypeVar("T")
Steps = Generator[Statement, list[Row], T]

sql = Statements("holdfast.store")


class Published(NamedTuple):
    """The event's id, and whether its dedup key was known already. It exists once the caller's transaction commits."""

    id: str
    duplicate: bool = False


class Fresh(NamedTuple):
    """An event on its way in, with the id it gets if it is the first of its key."""

    event: NewEvent
    id: str


class Door:
    """The verbs of the door in one dialect, with parameters written as one driver wants them."""

    def __init__(self, dialect: str, marks: str) -> None:
        self._dialect, self._marks = dialect, marks

    def publish(self, fresh: Fresh, now_ms: int) -> Steps[Published]:
        """Append one event: one statement, and with a dedup key a look at whose it is."""
        event, id = fresh
        yield self._statement("publish", door_row(event, id, now_ms))
        if event.dedup_key is None:
            return Published(id)
        ((first,),) = yield self._statement("first", (event.source, event.dedup_key))
        return Published(first, duplicate=first != id)

    def publish_many(self, many: Sequence[Fresh], now_ms: int) -> Steps[list[Published]]:
        """Append several. Streams are locked in sorted order, whoever calls; the answers come in the order given."""
        answers: dict[int, Published] = {}
        for place in sorted(range(len(many)), key=lambda place: _lock_order(many[place].event)):
            answers[place] = yield from self.publish(many[place], now_ms)
        return [answers[place] for place in range(len(many))]

    def receive(self, consumer: str, event_id: str, now_ms: int) -> Steps[bool]:
        """Note that a consumer handles an event; True if it is the first to say so."""
        rows = yield self._statement("inbox_add", (consumer, event_id, now_ms))
        return bool(rows)

    def forget(self, consumer: str, event_id: str) -> Steps[None]:
        """Take such a note back."""
        yield self._statement("inbox_forget", (consumer, event_id))

    def _statement(self, verb: str, params: tuple[Any, ...]) -> Statement:
        return Statement(_marked(getattr(sql, f"{self._dialect}_{verb}"), self._marks), params)


def through(connection: Any, work: Callable[[Door], Steps[T]]) -> T:
    """Carry out a verb in the transaction this connection is in."""
    driver = sync_driver(connection)
    steps = work(Door(driver.dialect, driver.marks))
    rows: list[Row] | None = None
    while True:
        try:
            statement = next(steps) if rows is None else steps.send(rows)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        try:
            rows = driver.rows(statement)
        except Exception as error:
            raise (translated(error) or error) from error


async def through_async(connection: Any, work: Callable[[Door], Steps[T]]) -> T:
    """Carry out a verb in the transaction this awaited connection is in."""
    driver = await async_driver(connection)
    steps = work(Door(driver.dialect, driver.marks))
    rows: list[Row] | None = None
    while True:
        try:
            statement = next(steps) if rows is None else steps.send(rows)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        try:
            rows = await driver.rows(statement)
        except Exception as error:
            raise (translated(error) or error) from error


def door_row(event: NewEvent, id: str, now_ms: int) -> tuple[Any, ...]:
    """The values of `publish`, in its order."""
    return (
        id, event.type, event.payload.decode(), event.source, event.stream, event.timestamp or iso_time(now_ms),
        event.properties.decode(), event.dedup_key, event.to, event.not_before_ms, now_ms,
        event.digest if event.dedup_key is not None else None,
    )  # fmt: skip


def _lock_order(event: NewEvent) -> tuple[bool, str]:
    """Within a stream the caller's order stays, since sorting is stable; what has no stream can only meet by its key."""
    return event.stream is not None, event.stream or event.dedup_key or ""


def _marked(text: str, marks: str) -> str:
    """The statement with its `?` written as the driver wants them. Our statements hold no other question marks."""
    if marks == FORMAT:
        return text.replace("?", "%s")
    if marks == DOLLAR:
        head, *tails = text.split("?")
        return head + "".join(f"${number}{tail}" for number, tail in enumerate(tails, 1))
    return text


_ = (SQLITE, Driver)

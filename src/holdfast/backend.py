"""The outbox as a bare queue: enqueue in your transaction, claim one message, confirm or release it.

For components with a worker loop of their own. `OutboxBackend` is the interface; `NativeSqlOutbox` implements it with
Holdfast's deliveries, and `PgmqOutbox` the same with the queue in pgmq.

    queue = NativeSqlOutbox("sqlite:///app.db")
    with connection:
        queue.enqueue(connection, {"order": 42}, queue="receipts")
    row = queue.claim("receipts")
    queue.confirm(row.id)                           # or release(row.id, "503"), or dlq(row.id, "422: refused")
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

from holdfast.domain.address import queue_address
from holdfast.domain.delivery import Dead, Delivered, Retry
from holdfast.domain.errors import BadConfig, BadInput
from holdfast.domain.json_value import Json, JsonObject
from holdfast.domain.states import Reason
from holdfast.domain.store_url import PGMQ_PREFIX, is_postgres
from holdfast.domain.text import short_repr
from holdfast.home import masked_url
from holdfast.ingress.fork_lock import ForkLock
from holdfast.ingress.loop_thread import LoopThread
from holdfast.ingress.publish import event_from_mapping, publish, tables_of

if TYPE_CHECKING:
    from holdfast.operations.message_queue import MessageQueue

T = TypeVar("T")

QUEUE = "default"
ATTEMPTS = 24
ATTEMPTS_MAX = 10_000
INSPECT_MAX = 100


class OutboxRow(NamedTuple):
    """A claimed message. It is yours until you end it or its lease expires."""

    id: str
    queue_name: str
    payload: Json
    attempt_count: int
    max_attempts: int


class OutboxBackend(Protocol):
    """A queue with at-least-once delivery, and dead letters that can be counted, inspected and reprocessed."""

    @property
    def is_durable(self) -> bool:
        """Whether an enqueued message survives a crash once its transaction is committed."""
        ...

    def enqueue(self, connection: object, payload: object, *, queue: str = QUEUE, max_attempts: int = ATTEMPTS) -> str:
        """Append a message in the caller's transaction. Returns its id."""
        ...

    def claim(self, queue: str = QUEUE) -> OutboxRow | None:
        """The next message that is due, leased to the caller; None if there is none."""
        ...

    def confirm(self, id: str) -> None:
        """End a claimed message: it was processed."""
        ...

    def release(self, id: str, error: str) -> None:
        """Retry a claimed message later, or make it a dead letter when its attempts are used up."""
        ...

    def dlq(self, id: str, error: str) -> None:
        """Make a claimed message a dead letter now."""
        ...

    def stats(self, queue: str = QUEUE) -> dict[str, int]:
        """The numbers of messages: `pending`, `in_flight` and `dlq`."""
        ...

    def dlq_count(self, queue: str = QUEUE) -> int:
        """How many dead letters the queue has."""
        ...

    def dlq_inspect(self, limit: int = 10, queue: str = QUEUE) -> list[JsonObject]:
        """Dead letters with payload and last error, newest first."""
        ...

    def dlq_reprocess(self, ids: Sequence[str], queue: str = QUEUE) -> int:
        """Requeue dead letters. Returns how many were requeued."""
        ...

    def reclaim_stuck_in_flight(self) -> int:
        """Release messages held by dead processes or expired leases. Returns how many."""
        ...


class _Connection(NamedTuple):
    """The queue, and the event loop it runs on. Callers with and without an event loop of their own block on it."""

    thread: LoopThread
    queue: MessageQueue


class NativeSqlOutbox:
    """`OutboxBackend` on a store. Calls block and are thread-safe; `close` it, or use it in a `with` block.

    A queue is the direct address `handler:queue.NAME`. Each message is one delivery, with attempts, receipts and dead
    letters like any other. A claim has a lease; ending a message after its lease expired raises `Conflict`.
    A forked child opens a connection of its own; messages that its parent claimed stay with the parent. On SQLite that
    is refused if the parent's connection was open at the fork.
    """

    is_durable = True

    def __init__(self, url: str, *, lease_seconds: float = 300.0) -> None:
        self.url, self._lease_s = url, lease_seconds
        self._opening = ForkLock()
        self._connection: _Connection | None = None
        # Connections of the parent process: closing one in a forked child could damage the parent's.
        self._inherited: list[_Connection] = []

    def enqueue(self, connection: object, payload: object, *, queue: str = QUEUE, max_attempts: int = ATTEMPTS) -> str:
        """Append a message in the caller's transaction; the caller commits. Returns its id, which never changes."""
        if type(max_attempts) is not int or not 1 <= max_attempts <= ATTEMPTS_MAX:
            raise BadInput(f"max_attempts must be a number from 1 to {ATTEMPTS_MAX}, not {short_repr(max_attempts)}")
        fields = {
            "type": "queue.message",
            "source": "queue",
            "payload": payload,
            "to": queue_address(queue),
            "properties": {"queue": queue, "max_attempts": max_attempts},
        }
        return publish(connection, event_from_mapping(fields), tables_of(self.url)).id

    def claim(self, queue: str = QUEUE) -> OutboxRow | None:
        """Claim the next message that is due, for the length of the lease. None if there is none."""
        from holdfast.operations.message_queue import max_attempts_of

        claim = self._run(lambda messages: messages.claim(queue))
        if claim is None:
            return None
        event = claim.event
        return OutboxRow(
            event.id, queue, event.payload, claim.delivery.attempts + 1, max_attempts_of(event) or ATTEMPTS
        )

    def confirm(self, id: str) -> None:
        """The message was processed."""
        self._run(lambda messages: messages.settle(id, Delivered()))

    def release(self, id: str, error: str) -> None:
        """The attempt failed: the message is due again after the backoff, or dead when its attempts are used up."""
        self._run(lambda messages: messages.settle(id, Retry(error)))

    def dlq(self, id: str, error: str) -> None:
        """The message can never succeed: make it a dead letter now."""
        self._run(lambda messages: messages.settle(id, Dead(Reason.REJECTED, error)))

    def stats(self, queue: str = QUEUE) -> dict[str, int]:
        """Messages that are pending, claimed and dead: `{"pending": 1, "in_flight": 0, "dlq": 0}`."""
        return self._run(lambda messages: messages.stats(queue))

    def dlq_count(self, queue: str = QUEUE) -> int:
        """How many dead letters the queue has."""
        return self._run(lambda messages: messages.dead_count(queue))

    def dlq_inspect(self, limit: int = 10, queue: str = QUEUE) -> list[JsonObject]:
        """Dead letters with payload and last error, newest first."""
        if not 1 <= limit <= INSPECT_MAX:
            raise BadInput(f"limit must be from 1 to {INSPECT_MAX}, not {limit}")
        return self._run(lambda messages: messages.dead(queue, limit))

    def dlq_reprocess(self, ids: Sequence[str], queue: str = QUEUE) -> int:
        """Requeue dead letters. Returns how many were requeued."""
        if isinstance(ids, str):
            raise BadInput(f"dlq_reprocess takes a list of ids, not the text {short_repr(ids)}")
        return self._run(lambda messages: messages.reprocess(queue, ids))

    def reclaim_stuck_in_flight(self) -> int:
        """Release messages held by dead processes or expired leases. Returns how many."""
        return self._run(lambda messages: messages.reclaim())

    def close(self) -> None:
        """Release the claimed messages and close the store."""
        with self._opening:
            connection, self._connection = self._connection, None
        if connection is not None and connection.thread.is_alive:
            connection.thread.run(connection.queue.close())
            connection.thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Callable[[MessageQueue], Coroutine[object, object, T]]) -> T:
        connection = self._open()
        return connection.thread.run(work(connection.queue))

    def _open(self) -> _Connection:
        from holdfast.operations.message_queue import MessageQueue

        with self._opening:
            connection = self._connection
            if connection is None or not connection.thread.is_alive:
                if connection is not None:
                    self._inherited.append(connection)
                thread = LoopThread("holdfast-outbox")
                try:
                    queue = thread.run(MessageQueue.open(self.url, round(self._lease_s * 1000)))
                except BaseException:
                    thread.stop()
                    raise
                connection = self._connection = _Connection(thread, queue)
            return connection


class PgmqOutbox(NativeSqlOutbox):
    """`OutboxBackend` on a PostgreSQL store whose queue is in pgmq. A new store is created so.

    A store whose queue is not in pgmq is refused: `holdfast db promote --to pgmq` moves it.
    """

    def __init__(self, url: str, *, lease_seconds: float = 300.0) -> None:
        if not is_postgres(url):
            raise BadConfig(
                f"pgmq is part of PostgreSQL: use pgmq+postgresql://USER@HOST/DATABASE, not {masked_url(url)!r}"
            )
        super().__init__(PGMQ_PREFIX + url.removeprefix(PGMQ_PREFIX), lease_seconds=lease_seconds)

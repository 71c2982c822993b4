"""The outbox as a bare queue: enqueue in your transaction, claim one message, confirm or release it.

For components with a worker loop of their own. `OutboxBackend` is the interface; `NativeSqlOutbox` implements it with
Holdfast's deliveries.

    queue = NativeSqlOutbox("sqlite:///app.db")
    with connection:
        queue.enqueue(connection, {"order": 42}, queue="receipts")
    row = queue.claim("receipts")
    queue.confirm(row.id)                           # or release(row.id, "503"), or dlq(row.id, "422: refused")
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

from holdfast.domain.address import queue_address
from holdfast.domain.delivery import Dead, Delivered, Retry
from holdfast.domain.errors import BadInput
from holdfast.domain.json_value import Json, JsonObject
from holdfast.domain.states import Reason
from holdfast.domain.text import short_repr
from holdfast.ingress.loop_thread import LoopThread
from holdfast.ingress.publish import event_from_mapping, publish, schema_of

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
    def is_durable(self) -> bool: ...
    def enqueue(
        self, connection: object, payload: object, *, queue: str = QUEUE, max_attempts: int = ATTEMPTS
    ) -> str: ...
    def claim(self, queue: str = QUEUE) -> OutboxRow | None: ...
    def confirm(self, id: str) -> None: ...
    def release(self, id: str, error: str) -> None: ...
    def dlq(self, id: str, error: str) -> None: ...
    def stats(self, queue: str = QUEUE) -> dict[str, int]: ...
    def dlq_count(self, queue: str = QUEUE) -> int: ...
    def dlq_inspect(self, limit: int = 10, queue: str = QUEUE) -> list[JsonObject]: ...
    def dlq_reprocess(self, ids: Sequence[str], queue: str = QUEUE) -> int: ...
    def reclaim_stuck_in_flight(self) -> int: ...


class NativeSqlOutbox:
    """`OutboxBackend` on a store. Calls block and are thread-safe; `close` it, or use it in a `with` block.

    A queue is the direct address `handler:queue.NAME`. Each message is one delivery, with attempts, receipts and dead
    letters like any other. A claim has a lease; ending a message after its lease expired raises `Conflict`.
    """

    is_durable = True

    def __init__(self, url: str, *, lease_seconds: float = 300.0) -> None:
        self.url, self._lease_s = url, lease_seconds

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
        return publish(connection, event_from_mapping(fields), schema_of(self.url)).id

    def claim(self, queue: str = QUEUE) -> OutboxRow | None:
        """Claim the next message that is due, for the length of the lease. None if there is none."""
        claim = self._run(self._desk.claim(queue))
        if claim is None:
            return None
        event = claim.event
        return OutboxRow(event.id, queue, event.payload, claim.delivery.attempts + 1, event.properties["max_attempts"])

    def confirm(self, id: str) -> None:
        """The message was processed."""
        self._run(self._desk.end(id, Delivered()))

    def release(self, id: str, error: str) -> None:
        """The attempt failed: the message is due again after the backoff, or dead when its attempts are used up."""
        self._run(self._desk.end(id, Retry(error)))

    def dlq(self, id: str, error: str) -> None:
        """The message can never succeed: make it a dead letter now."""
        self._run(self._desk.end(id, Dead(Reason.REJECTED, error)))

    def stats(self, queue: str = QUEUE) -> dict[str, int]:
        """Messages that are pending, claimed and dead: `{"pending": 1, "in_flight": 0, "dlq": 0}`."""
        return self._run(self._desk.stats(queue))

    def dlq_count(self, queue: str = QUEUE) -> int:
        return self._run(self._desk.dead_count(queue))

    def dlq_inspect(self, limit: int = 10, queue: str = QUEUE) -> list[JsonObject]:
        """Dead letters with payload and last error, newest first."""
        if not 1 <= limit <= INSPECT_MAX:
            raise BadInput(f"limit must be from 1 to {INSPECT_MAX}, not {limit}")
        return self._run(self._desk.dead(queue, limit))

    def dlq_reprocess(self, ids: Sequence[str], queue: str = QUEUE) -> int:
        """Requeue dead letters. Returns how many were requeued."""
        if isinstance(ids, str):
            raise BadInput(f"dlq_reprocess takes a list of ids, not the text {short_repr(ids)}")
        return self._run(self._desk.reprocess(queue, ids))

    def reclaim_stuck_in_flight(self) -> int:
        """Release messages held by dead processes or expired leases. Returns how many."""
        return self._run(self._desk.reclaim())

    def close(self) -> None:
        """Release the claimed messages and close the store."""
        if "_desk" in self.__dict__:
            self._run(self._desk.close())
            del self._desk
        if "_thread" in self.__dict__:
            self._thread.stop()
            del self._thread

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _desk(self) -> MessageQueue:
        from holdfast.operations.message_queue import MessageQueue

        return self._run(MessageQueue.open(self.url, round(self._lease_s * 1000)))

    @cached_property
    def _thread(self) -> LoopThread:
        """Callers with and without an event loop block on this one."""
        return LoopThread("holdfast-outbox")

    def _run(self, work: Coroutine[object, object, T]) -> T:
        return self._thread.run(work)

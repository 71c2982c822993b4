"""The answer of `status`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.operations.answers.fields import Format, Time
from holdfast.operations.answers.maintenance import PauseScope
from holdfast.operations.answers.readers import ReaderAnswer
from holdfast.operations.answers.receipts import CheckedReceipts
from holdfast.store.roles.queue_admin import QueueKind

QueueName = Annotated[str, Format(enum=tuple(kind.value for kind in QueueKind))]


@dataclass(frozen=True, slots=True)
class PausedItem:
    """A contract, address or lane whose deliveries are paused."""

    scope: PauseScope
    name: str


@dataclass(frozen=True, slots=True)
class MisconfiguredContract:
    """A contract whose deliveries wait because something it names is missing."""

    contract_id: str
    why: str


@dataclass(frozen=True, slots=True)
class QueueAnswer:
    """What waits for one contract or direct address. `contract_id` is null for a direct address."""

    name: str
    contract_id: str | None
    pending: int
    in_flight: int
    oldest_pending_seconds: int | None


@dataclass(frozen=True, slots=True)
class StuckLaneAnswer:
    """A lane whose head has failed while others wait behind it. `since`: when the head was created."""

    lane: str
    waiting: int
    delivery_id: int
    event_id: str
    attempts: int
    last_error: str | None
    since: Time


@dataclass(frozen=True, slots=True)
class WorkingDaemon:
    """A process that delivers from this store. An application that runs handlers is one too.

    `deliveries` and `streams`: how many it has leased now. `chain`: the receipt chain it writes. `last_seen_at`: its
    last sign of life, null if unknown; on PostgreSQL it is written every ten seconds. `alive`: false if its work is
    being taken over.
    """

    owner: int
    host: str
    pid: int
    alive: bool
    since: Time
    last_seen_at: Time | None
    deliveries: int
    streams: int
    chain: str


@dataclass(frozen=True, slots=True)
class Status:
    """Daemon health and queue counts. What cannot be known is null, never 0: a command that works on a store without
    a daemon knows neither its health nor its spool.

    `queue`: what holds the deliveries that can be claimed, a table of the store or a queue of pgmq. `not_accepting`:
    why new events are refused, null if they are not. `unmatched`: events that matched no contract. `unrouted`: events
    that wait for the router. `pending`: deliveries that are not settled. `spooled`: files in the spool. `hooks`: agent
    hooks that were not appended, since the daemon started. `duties`: the state of each background duty. `disabled`:
    contracts that match nothing until they are enabled. `stuck`: lanes whose head fails while others wait, the longest
    20. `receipts`: the last check of the receipts. `sessions`: agent sessions by state. `readers`: readers of streams,
    sinks among them, with their lag. `daemons`: the processes that work on this store, at most 1,000.
    """

    version: str
    store: str
    queue: QueueName
    healthy: bool | None
    not_accepting: str | None
    uptime_seconds: float | None
    events: int
    unmatched: int
    streams: int | None
    unrouted: int
    pending: int
    in_flight: int
    lanes: int
    dead: int
    dead_by_reason: dict[str, int]
    spooled: int | None
    hooks: dict[str, int]
    oldest_pending_seconds: int | None
    next_due_at: Time | None
    paused: list[PausedItem]
    misconfigured: list[MisconfiguredContract]
    disabled: list[str]
    stuck: list[StuckLaneAnswer]
    breakers: list[str]
    receipts: CheckedReceipts
    sessions: dict[str, int]
    readers: list[ReaderAnswer]
    daemons: list[WorkingDaemon]
    duties: dict[str, str]
    notes: list[str]

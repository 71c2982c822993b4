"""What a store does, by role. Every store implements these; one behavioural suite in `holdfast.testing` checks them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from holdfast.domain.bookmark import Bookmark
from holdfast.domain.contract import Contract
from holdfast.domain.cursor import Cursor
from holdfast.domain.delivery import Claim, Settlement
from holdfast.domain.errors import StoreFailed
from holdfast.domain.event import Appended, Event, NewEvent
from holdfast.domain.receipt import Head, Link
from holdfast.domain.session import Session, SessionChange

T = TypeVar("T")

SERVED_MS = 150 * 1000  # a process says about once a minute which handlers it serves
PAGE_MAX = 1000
PAGE_BYTES_MAX = 8 * 1024 * 1024  # a page ends behind the event that reaches it, so that one always has at least one
BATCH_MAX = 500
PRUNED = ("deliveries", "events", "dedup_keys", "inbox", "lanes", "sessions", "streams")
_DAY_MS = 86_400_000


class Feature(StrEnum):
    """What a store may or may not have. The suite asks for exactly what is declared."""

    ONE_KEEPER = "one_keeper"  # one process at a time routes and delivers
    MANY_OWNERS = "many_owners"  # any number of processes work side by side
    BACKUP = "backup"  # copies itself while in use
    SEED_VIEWS = "seed_views"  # shows its data under the source systems' names


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: list[T]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class EventFilter:
    source: str | None = None
    type: str | None = None
    stream: str | None = None
    unmatched: bool = False


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    state: str | None = None
    reason: str | None = None
    contract: str | None = None
    address: str | None = None
    stream: str | None = None
    event: str | None = None


class StreamRow(NamedTuple):
    id: str
    head: int
    created_at_ms: int
    closed_at_ms: int | None


class DeliveryRow(NamedTuple):
    """A delivery as an operator sees it."""

    id: int
    event_id: str
    event_type: str
    stream: str
    seq: int
    address: str
    contract_id: str | None
    state: str
    reason: str | None
    attempts: int
    generation: int
    due_at_ms: int | None
    leased: bool
    starts: int
    survivor: int | None
    created_at_ms: int
    settled_at_ms: int | None
    last_error: str | None
    waits_for: str | None


class AttemptRow(NamedTuple):
    generation: int
    attempt: int
    started_at_ms: int
    ended_at_ms: int
    outcome: str
    error: str | None
    detail: dict[str, Any] | None


class QueueRow(NamedTuple):
    """One contract's line, or one direct address's."""

    id: int
    contract_id: str | None
    address: str
    kind: str
    paused: bool
    parked: bool
    served_at_ms: int


class Target(NamedTuple):
    """Where the router sends one event: a contract's queue or a direct address, perhaps in a lane."""

    queue: int | None
    address: str
    kind: str
    lane: str | None
    burst: str | None = None


class Plan(NamedTuple):
    """What the router decided about one event. No targets: nobody wanted it."""

    n: int
    targets: tuple[Target, ...]
    due_at_ms: int


class RoutingBatch(Protocol):
    """Events taken in stream order; nobody else routes the same stream meanwhile."""

    version: int
    events: Sequence[Event]
    due_at_ms: Mapping[int, int]

    async def commit(self, plans: Sequence[Plan], owner: Owner | None = None) -> bool:
        """Insert the deliveries and move on, in one transaction. False: the contracts changed, plan again.

        What a new delivery replaces, or a full lane has no room for, is dropped in the same transaction, with a
        receipt of the owner's. Without an owner nothing is dropped.
        """


class Served(NamedTuple):
    """What a process can deliver to: whole kinds, and single addresses; but nothing to those that are shut."""

    kinds: frozenset[str]
    addresses: frozenset[str]
    shut: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    owner: int
    served: Served
    limit: int
    lease_ms: Mapping[str, int]
    room: Mapping[int, int]
    room_default: Mapping[str, int]
    after_queue: int = 0
    suspects: bool = True


@dataclass(frozen=True, slots=True)
class Claimed:
    """`held_back`: more is due, and goes out when something that is under way has ended."""

    claims: list[Claim]
    next_due_ms: int | None
    after_queue: int
    held_back: bool = False


class Owner(NamedTuple):
    """A process at work, with the receipt chain it writes on. `unclean`: the one before it did not stop in order."""

    id: int
    chain: str
    unclean: bool = False


class TokenRow(NamedTuple):
    id: str
    name: str
    scope: str
    created_at_ms: int
    revoked_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things are kept, in milliseconds. Receipts are kept for ever."""

    delivered_ms: int
    inbound_ms: int
    dead_ms: int
    dedup_ms: int
    sessions_ms: int = 90 * _DAY_MS
    streams_ms: int = 365 * _DAY_MS

    @property
    def streams_kept_ms(self) -> int:
        """A dedup key answers with its event's place in the stream, so the stream outlives it."""
        return max(self.streams_ms, self.dedup_ms)


class Gate(NamedTuple):
    """An address whose breaker is open: since when it fails, until when nobody tries, how often it opened in a row."""

    address: str
    failing_since_ms: int
    open_until_ms: int
    trips: int


class Moment(NamedTuple):
    """When the next request to an address may begin, and whether that moment is reserved for the caller."""

    wait_us: int
    reserved: bool


class Private(NamedTuple):
    """What a contract keeps to itself: its signing secrets, newest first, and the values of its headers.

    `until_ms`: when the first of the secrets has had its time, so that this must be read anew.
    """

    secrets: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    until_ms: int | None = None


class Registered(NamedTuple):
    """A contract together with what it keeps to itself, as one source hands it in."""

    contract: Contract
    secret: str | None = None
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class SessionFilter:
    agent: str | None = None
    state: str | None = None
    native_id: str | None = None
    cwd: str | None = None


class Events(Protocol):
    async def append(self, events: Sequence[NewEvent]) -> list[Appended]: ...
    async def get(self, id: str) -> Event | None: ...
    async def find(self, wanted: EventFilter, after: str | None, limit: int) -> Page[Event]:
        """Newest first: at most `limit`, and no more once `PAGE_BYTES_MAX` is reached. Bodies are read one by one."""

    async def streams(self, after: str | None, limit: int) -> Page[StreamRow]: ...
    async def stream(self, id: str) -> StreamRow | None: ...
    async def read(self, stream: str, after_seq: int, limit: int) -> list[Event]:
        """In `seq` order: at most `limit`, and no more once `PAGE_BYTES_MAX` is reached."""

    async def reroute(self, ids: Sequence[str]) -> int: ...


class ContractChange(NamedTuple):
    """A contract as it is after a change, None once it is removed, and the queue of what waits for it."""

    id: str
    contract: Contract | None
    queue: int | None


class Contracts(Protocol):
    async def put(
        self, contract: Contract, secret: str | None, *, headers: Mapping[str, str] | None = None, keep: bool = False
    ) -> None:
        """Create or replace. `keep` leaves its secrets and whether it is active: so an application does at start."""

    async def register(self, modules: Collection[str], contracts: Sequence[Contract], *, alone: bool) -> list[str]:
        """Put contracts of an application's code; the ids of those that were retired.

        A contract that one of these modules registered before and does not register now is retired: disabled, what
        waits for it parked, until code registers it again or it is removed. Not while another process may still serve
        it, as during a rolling deployment; `alone` says that there is none. Secrets, and whether an operator disabled
        a contract, stay as they are.
        """

    async def with_private_keys(self) -> list[str]:
        """The contracts that sign with a private key."""

    async def adopt(self, digest: str, registered: Sequence[Registered]) -> bool:
        """Make these the contracts of source `config`, and no others. False: they are so already."""

    async def digest(self) -> str | None:
        """Which configuration's contracts are in force: what the last `adopt` was given."""

    async def get(self, id: str) -> Contract | None: ...
    async def all(self, inactive: bool = False) -> list[Contract]: ...
    async def remove(self, id: str) -> bool: ...
    async def set_active(self, id: str, active: bool) -> bool:
        """Disable a contract, which parks what waits for it, or enable it again. True where that changed it."""

    async def retire(self, id: str) -> bool:
        """Its time is over: it matches no more, and what waits for it is delivered all the same."""

    async def rotate(self, id: str, secret: str, overlap_ms: int) -> bool:
        """Sign with a new secret; the old ones sign beside it for a while. False: there is no such contract."""

    async def private(self, id: str) -> Private: ...
    async def signing(self) -> frozenset[str]:
        """The ids of the contracts that have a secret to sign with now."""

    async def version(self) -> int: ...
    async def changed(self, since: int) -> list[ContractChange]:
        """What was put, removed, switched on or off, or given another secret after that version, each once."""

    async def queues(self) -> list[QueueRow]: ...


class Routing(Protocol):
    def batch(self, limit: int) -> AbstractAsyncContextManager[RoutingBatch]: ...
    async def backlog(self) -> int: ...


class Deliveries(Protocol):
    """The queue itself: claim, renew, settle, release, reclaim."""

    async def claim(self, request: ClaimRequest) -> Claimed: ...
    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> set[int]:
        """Ids of the deliveries whose lease is no longer ours."""

    async def settle(self, owner: Owner, settlements: Sequence[Settlement]) -> set[int]:
        """Apply transitions, receipts and effects in one transaction; the ids whose lease was lost."""

    async def release(self, claims: Sequence[Claim]) -> None:
        """Give claims back as if they had never been taken: their starts are not counted."""

    async def forgive(self, claims: Sequence[Claim]) -> None:
        """Do not count the starts of these claims, whose leases stay: a stop cut them off, not a crash."""

    async def reclaim(self, holding: Sequence[int] = ()) -> int:
        """Free the leases of owners that are gone, and leases that have ended; how many there were.

        `holding` are deliveries that the calling process still works on: after it stood still, their leases may have
        ended, but no other process took them, so they stay its own.
        """

    async def others_hold(self, owner: Owner) -> bool:
        """Whether other processes may hold leases now, so that their end must be noticed within a second."""

    async def resume_handed(self) -> int: ...
    async def serve(self, addresses: Sequence[str]) -> None: ...
    async def drop_removed(self, owner: Owner) -> int: ...
    async def bury_unserved(self, owner: Owner, grace_ms: int, since_ms: int) -> int: ...


class Gates(Protocol):
    """Rates and breakers of addresses, shared by every process on the store."""

    async def reserve(self, address: str, interval_us: int, ahead_us: int) -> Moment:
        """The next free moment for one request to this address; it is reserved if it comes within `ahead_us`.

        A process that ends keeps what it reserved from the others, so nothing is reserved far ahead.
        """

    async def open(self, after: str = "") -> list[Gate]:
        """Addresses whose breaker is open, by their text, behind this one: at most `PAGE_MAX` of them."""

    async def trip(self, address: str, cooldown_ms: int) -> Gate:
        """Open a breaker, or keep it open for longer."""

    async def probe(self, owner: Owner, address: str, lease_ms: int) -> bool:
        """Whether this owner may try once: the breaker's time is over, and no other living owner is trying."""

    async def close(self, address: str) -> bool:
        """Close a breaker. True where it was open."""


class Sessions(Protocol):
    """The read model of agent sessions. Hooks change it through the effects of their settle."""

    async def get(self, id: str) -> Session | None: ...
    async def find(self, wanted: SessionFilter, after: str | None, limit: int) -> Page[Session]: ...
    async def change(self, change: SessionChange) -> None: ...


class Operator(Protocol):
    """What an operator sees and repairs."""

    async def deliveries(self, wanted: DeliveryFilter, after: str | None, limit: int) -> Page[DeliveryRow]: ...
    async def delivery(self, id: int) -> DeliveryRow | None: ...
    async def attempts(self, id: int) -> list[AttemptRow]: ...
    async def count_dead(self, wanted: DeliveryFilter) -> dict[str, int]: ...
    async def dead_ids(self, wanted: DeliveryFilter, limit: int) -> list[int]:
        """Dead letters that the filter matches, the oldest first: in this order they are requeued."""

    async def count_ready(self, address: str) -> tuple[int, int]: ...
    async def reprocess(self, owner: Owner, ids: Sequence[int], states: frozenset[str], actor: str) -> list[int]: ...
    async def discard(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]: ...
    async def cancel(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]: ...
    async def hasten(self, ids: Sequence[int]) -> list[int]: ...
    async def pause(self, scope: str, name: str) -> bool: ...
    async def resume(self, scope: str, name: str) -> bool: ...
    async def pauses(self) -> list[tuple[str, str, int]]: ...
    async def figures(self) -> dict[str, Any]: ...


class Receipts(Protocol):
    async def heads(self) -> dict[str, Head]: ...
    async def links(self, chain: str | None, after: tuple[str, int], limit: int) -> list[Link]: ...
    async def at(self, moments_ms: Sequence[int], limit: int) -> list[Link]:
        """The links that were made at these moments, in the order of time."""

    def every(self) -> AsyncIterator[list[Link]]: ...


class Cursors(Protocol):
    async def ensure(self, reader: str, stream: str) -> Cursor: ...
    async def get(self, reader: str, stream: str) -> Cursor | None: ...
    async def advance(self, reader: str, stream: str, position: int) -> Cursor: ...


class Bookmarks(Protocol):
    """How far the transcript files of agent sessions were read."""

    async def get(self, session: str, file: str) -> Bookmark | None:
        """The bookmark of a file, by session id and a key that identifies the file; None: never read."""

    async def put(self, session: str, file: str, bookmark: Bookmark) -> None:
        """Set a bookmark. Raises Conflict when the stored one is ahead: another process reads the same file.

        Bookmarks are removed together with their session.
        """


class Owners(Protocol):
    async def enlist(self) -> Owner: ...
    async def retire(self, owner: Owner) -> None: ...


class Tokens(Protocol):
    async def add(self, id: str, name: str, scope: str, hash: str) -> None: ...
    async def scope_of(self, hash: str) -> str | None: ...
    async def find(self, after: str, limit: int) -> list[TokenRow]:
        """Tokens by id, behind this one."""

    async def revoke(self, id: str) -> bool: ...


class Care(Protocol):
    async def prune(self, retention: Retention, limit: int) -> dict[str, int]:
        """Remove what is past its time, at most `limit` of each kind. How many went of each kind in `PRUNED`."""

    async def backup(self, path: Path) -> None: ...
    async def checkpoint(self) -> bool:
        """Move the write-ahead log into the file, where there is one. True: it was long, so look again soon."""

    async def check(self) -> list[str]: ...
    async def about(self) -> str:
        """What holds the data, with its version."""

    def changed_elsewhere(self) -> bool:
        """Whether another process committed since the last call."""

    def watched_files(self) -> list[Path]:
        """Files in one folder that a commit of another process changes; none where the store gives notice itself."""

    def commits(self) -> int:
        """How many commits this process made. Only whether it changed has a meaning."""

    def refusal(self) -> str | None:
        """Why nothing new is accepted now; None: new events are accepted."""

    def notes(self) -> list[str]:
        """What an operator should know about how this store is reached; usually nothing."""


class Store(Protocol):
    """All roles together, as one store offers them."""

    @property
    def url(self) -> str: ...
    @property
    def features(self) -> frozenset[Feature]: ...
    @property
    def events(self) -> Events: ...
    @property
    def contracts(self) -> Contracts: ...
    @property
    def routing(self) -> Routing: ...
    @property
    def deliveries(self) -> Deliveries: ...
    @property
    def gates(self) -> Gates: ...
    @property
    def sessions(self) -> Sessions: ...
    @property
    def operator(self) -> Operator: ...
    @property
    def receipts(self) -> Receipts: ...
    @property
    def cursors(self) -> Cursors: ...
    @property
    def bookmarks(self) -> Bookmarks: ...
    @property
    def owners(self) -> Owners: ...
    @property
    def tokens(self) -> Tokens: ...
    @property
    def care(self) -> Care: ...

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Be told, after a commit of this process, what changed: events, deliveries, contracts."""

    def on_failure(self, listener: Callable[[StoreFailed], None]) -> None:
        """Be called when anything, a read included, finds that the store can no longer be trusted."""

    async def close(self) -> None: ...

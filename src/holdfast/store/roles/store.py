"""Store: all roles together."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from holdfast.domain.errors import StoreFailed
from holdfast.store.roles.archives import Archives
from holdfast.store.roles.blobs import Blobs
from holdfast.store.roles.bookmarks import Bookmarks
from holdfast.store.roles.contracts import Contracts
from holdfast.store.roles.cursors import Cursors
from holdfast.store.roles.deliveries import Deliveries
from holdfast.store.roles.events import Events
from holdfast.store.roles.feed import Feed
from holdfast.store.roles.gates import Gates
from holdfast.store.roles.history import History
from holdfast.store.roles.maintenance import Maintenance
from holdfast.store.roles.operator import Operator
from holdfast.store.roles.owners import Owners
from holdfast.store.roles.queue_admin import QueueAdmin
from holdfast.store.roles.readers import Readers
from holdfast.store.roles.receipts import Receipts
from holdfast.store.roles.routing import Routing
from holdfast.store.roles.sessions import Sessions
from holdfast.store.roles.tokens import Tokens


class Feature(StrEnum):
    """What a store may or may not do. The suite tests exactly the declared features."""

    ONE_KEEPER = "one_keeper"  # one process at a time routes and delivers
    MANY_OWNERS = "many_owners"  # any number of processes work side by side
    BACKUP = "backup"  # copies itself while in use
    COMPATIBILITY_VIEWS = "compatibility_views"  # read-only views under the names of the source systems


class Store(Protocol):
    """All roles together, as one store offers them."""

    @property
    def url(self) -> str:
        """The store's URL without a password."""

    @property
    def features(self) -> frozenset[Feature]:
        """What this store declares to do."""

    @property
    def events(self) -> Events:
        """Append and read events."""

    @property
    def contracts(self) -> Contracts:
        """Contracts, their secrets and queues."""

    @property
    def routing(self) -> Routing:
        """Turn events into deliveries."""

    @property
    def deliveries(self) -> Deliveries:
        """Claim and settle deliveries."""

    @property
    def gates(self) -> Gates:
        """Rate limits and circuit breakers."""

    @property
    def sessions(self) -> Sessions:
        """Agent sessions."""

    @property
    def operator(self) -> Operator:
        """Inspect and repair deliveries."""

    @property
    def receipts(self) -> Receipts:
        """Receipt chains."""

    @property
    def cursors(self) -> Cursors:
        """Readers' positions in streams."""

    @property
    def readers(self) -> Readers:
        """Readers of many streams, and the streams in which they lag."""

    @property
    def feed(self) -> Feed:
        """Reads for live views."""

    @property
    def archives(self) -> Archives:
        """Which events are in which archive."""

    @property
    def bookmarks(self) -> Bookmarks:
        """Positions in transcript files."""

    @property
    def history(self) -> History:
        """What happened in each minute of the last day."""

    @property
    def blobs(self) -> Blobs:
        """Files of messages."""

    @property
    def owners(self) -> Owners:
        """Processes at work."""

    @property
    def tokens(self) -> Tokens:
        """API tokens."""

    @property
    def maintenance(self) -> Maintenance:
        """Retention, copies, checks."""

    @property
    def queue_admin(self) -> QueueAdmin:
        """Which ready queue is in force; move and repair it."""

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call the listener after each commit of this process with what changed: events, deliveries, contracts."""

    def on_failure(self, listener: Callable[[StoreFailed], None]) -> None:
        """Call the listener when any operation, a read included, finds that the store can no longer be trusted."""

    async def close(self) -> None:
        """Release everything; harmless when repeated."""

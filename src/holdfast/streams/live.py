"""The duty behind all live views: reads what is new while there are clients, and does nothing while there are none."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from holdfast.domain.errors import TooMany
from holdfast.store.roles.store import Store
from holdfast.streams.feed import EventFeed, FeedFilter
from holdfast.streams.ring import Encode
from holdfast.streams.tail import LiveItem, Tails

POLL_S = 0.2
"""How often the store is read without a notification, while there are clients."""
HEARTBEAT_S = 15.0
CLIENTS_MAX = 1000


@dataclass(frozen=True, slots=True)
class View:
    """What one client follows. `is_complete`, after the last sign: nothing will follow. Otherwise this process ends."""

    items: AsyncGenerator[LiveItem]
    is_complete: Callable[[], bool]


class LiveViews:
    """Live views of one process. Clients hold their positions; nothing is stored for them."""

    name = "live"

    def __init__(self, store: Store, encode: Encode, now_s: Callable[[], float] = time.monotonic) -> None:
        self.tails = Tails(store.events, store.feed, store.archives, encode)
        self.feed = EventFeed(store.feed, encode)
        self._now_s, self._beat_s = now_s, 0.0
        self.clients_max = CLIENTS_MAX
        self.wake: Callable[[], None] = lambda: None

    @property
    def clients(self) -> int:
        return self.tails.clients + self.feed.clients

    def notice(self) -> None:
        """Read soon: events were appended."""
        if self.clients:
            self.wake()

    async def tail(self, stream: str, after: int | None, wait: bool) -> View:
        """Follow one stream, by default from its first stored event. The position is checked before this returns."""
        self._check_clients()
        start = await self.tails.check(stream, after, wait)
        self.wake()
        return View(self.tails.follow(stream, start), lambda: not self.tails.stopping)

    async def all_events(self, after: int | None, filter: FeedFilter) -> View:
        """Follow all events."""
        self._check_clients()
        start = await self.feed.start(after)
        self.wake()
        return View(self.feed.follow(start, filter), lambda: False)

    def _check_clients(self) -> None:
        if not self.clients:
            self._beat_s = self._now_s()
        if self.clients >= self.clients_max:
            raise TooMany(f"there are {self.clients_max:,} live views already; try again later")

    async def tick(self) -> float | None:
        if not self.clients:
            return None
        more = await self.tails.update()
        more |= await self.feed.update()
        if self._now_s() - self._beat_s >= HEARTBEAT_S:
            self._beat_s = self._now_s()
            self.tails.beat()
            self.feed.beat()
        return 0.0 if more else POLL_S

    def stop(self) -> None:
        """End every live view now. Clients resume at the next daemon, from their own positions."""
        self.tails.stop()
        self.feed.stop()

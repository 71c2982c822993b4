"""New deliveries that the router leases to this process, so that they need no claim.

The router reserves places for them before it commits. It gets places only in queues without a backlog: a delivery that
waits in the store is claimed before a newer one is taken from the router.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from holdfast.store.roles.deliveries import Claimed, ClaimRequest
from holdfast.store.roles.routing import LeaseOffer, Plan, RouteTarget

WAIT_S = 0.02


class RouterIntake:
    """The reservations of the router, and what the last claim showed about the backlog of each queue."""

    def __init__(self) -> None:
        self._claimed = False  # no claim yet: nothing is known about any backlog
        self._more = False  # the last claim was limited, so any queue may have a backlog
        self._behind: set[int] = set()
        self._reserved: Counter[int] = Counter()
        self._freed = asyncio.Event()

    @property
    def reserved(self) -> int:
        return self._reserved.total()

    def reserved_for(self, queue: int) -> int:
        return self._reserved[queue]

    def note_claim(self, request: ClaimRequest, claimed: Claimed) -> None:
        """Note which queues gave as much as was asked for, so that they may have more."""
        got = Counter(claim.queue for claim in claimed.claims)
        self._claimed, self._more = True, len(claimed.claims) >= request.limit or claimed.held_back
        self._behind = {queue for queue, places in request.capacity.items() if got[queue] >= places}
        self._behind.update(queue for queue in got if queue not in request.capacity)
        self.freed()

    def freed(self) -> None:
        """Places became free, or a claim was made: check again whether the router may go on."""
        self._freed.set()

    async def wait(self, is_enough: Callable[[], bool]) -> None:
        """Wait until there are enough places and no backlog, at most `WAIT_S`."""
        ends_s = asyncio.get_running_loop().time() + WAIT_S
        while not (is_enough() and self._claimed and not self._more and not self._behind):
            self._freed.clear()
            try:
                async with asyncio.timeout_at(ends_s):
                    await self._freed.wait()
            except TimeoutError:
                return

    def offer(
        self,
        owner: int,
        plans: Sequence[Plan],
        free: int,
        places_for: Callable[[RouteTarget], tuple[int, int]],
        now_ms: int,
    ) -> LeaseOffer | None:
        """Reserve at most `free` places for the targets of these plans; None if there is no place for any."""
        if not self._claimed or self._more or free <= 0:
            return None
        wanted = Counter(target.queue for plan in plans for target in plan.targets)
        targets = {target.queue: target for plan in plans for target in plan.targets}
        places: dict[int, int] = {}
        lease_ms: dict[int, int] = {}
        for queue, count in wanted.items():
            if queue is None or queue in self._behind or targets[queue].lane is not None:
                continue
            most, lease_ms[queue] = places_for(targets[queue])
            places[queue] = max(0, min(count, most - self._reserved[queue], free - sum(places.values())))
        if not sum(places.values()):
            return None
        self._reserved.update(places)
        return LeaseOffer(owner, places, lease_ms, now_ms)

    def end(self, offer: LeaseOffer) -> None:
        """End a reservation."""
        self._reserved.subtract(offer.places)

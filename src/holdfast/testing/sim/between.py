"""What stands between the parts of a simulated process: it watches, slows down, or gives trouble its moment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from holdfast.daemon.loop import Duty
from holdfast.domain.delivery import Settlement
from holdfast.domain.event import Appended, NewEvent
from holdfast.store.base import Deliveries, Events, Owner, Routing, RoutingBatch
from holdfast.testing.sim.ledger import Settled

if TYPE_CHECKING:
    from holdfast.testing.sim.process import Process


class Witness:
    """Between an engine and the store: writes down what the store answered to each settlement."""

    def __init__(self, process: Process, inner: Deliveries) -> None:
        self._process, self._inner = process, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def settle(self, owner: Owner, settlements: Sequence[Settlement]) -> set[int]:
        lost = await self._inner.settle(owner, settlements)
        ledger = self._process.world.ledger
        for item in settlements:
            id, token = item.claim.delivery.id, item.claim.token
            ledger.settled.append(Settled(ledger.next_n(), self._process.name, id, token, id in lost))
            if id in lost:
                ledger.fault("settlement refused: lease lost")
                self._process.log(f"lost its lease of {id}")
        return lost


class Interrupted:
    """Events for the spool import: between the commit and the removal of the records a process may die."""

    def __init__(self, process: Process, inner: Events) -> None:
        self._process, self._inner = process, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        answers = await self._inner.append(events)
        self._process.world.trouble.imported(self._process)
        return answers


class Seldom:
    """A duty once a second. Twenty looks a second at the same deadlines would be most of a schedule's steps."""

    def __init__(self, inner: Duty) -> None:
        self._inner, self.name = inner, inner.name

    async def tick(self) -> float | None:
        await self._inner.tick()
        return 1.0


class OneByOne:
    """Routing in batches of one."""

    def __init__(self, inner: Routing) -> None:
        self._inner = inner

    @asynccontextmanager
    async def batch(self, limit: int) -> AsyncIterator[RoutingBatch]:
        async with self._inner.batch(1) as batch:
            yield batch

    async def backlog(self) -> int:
        return await self._inner.backlog()

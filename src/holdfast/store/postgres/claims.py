"""Claiming on PostgreSQL: what is due and served, fair over the queues, without waiting for other claimers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence

from holdfast.store.base import Claimed, ClaimRequest
from holdfast.store.postgres.session import Row, Session
from holdfast.store.postgres.statements import sql
from holdfast.store.rows import to_claim

QUEUES_MAX = 1000
_NO_END = 1 << 62


async def claim(session: Session, request: ClaimRequest, now_ms: int, lease_now: int | None, token: int) -> Claimed:
    await session.run(sql.paused_unready)
    queues, next_due = await _queues(session, request, now_ms)
    if not queues:
        return Claimed([], next_due, 0)
    taking = Taking(session, request, queues, now_ms, lease_now, token)
    if request.suspects:
        await taking.suspect()
    share = max(1, taking.left // len(queues))
    await taking.lease(share)  # a fair share for each first,
    await taking.lease(taking.left)  # then whatever is left
    addresses = {id: (address, contract or None) for id, contract, address, _, _ in queues}
    claims = [to_claim(row, token, addresses) for row in await session.rows(sql.ready_leased, token)]
    return Claimed(claims, next_due, taking.last if len(queues) > 1 else 0)


class Taking:
    """One claim under way: how much is left of its limit and of each queue's room, and who was served last."""

    def __init__(
        self,
        session: Session,
        request: ClaimRequest,
        queues: Sequence[Row],
        now_ms: int,
        lease_now: int | None,
        token: int,
    ) -> None:
        self._session, self._now_ms = session, now_ms
        self._fence = (request.owner, token, lease_now)
        self._lease_ms = {id: request.lease_ms[kind] for id, _, _, kind, _ in queues}
        self._room = {id: request.room.get(id, request.room_default[kind]) for id, _, _, kind, _ in queues}
        self.left, self.last = request.limit, 0

    async def suspect(self) -> None:
        """One delivery, of any queue, that was begun twice without an end: it may be what kills processes."""
        suspicious = {row[0] for row in await self._session.rows(sql.suspect_queues, self._now_ms)}
        for queue, room in self._room.items():
            if queue in suspicious and room > 0 and self.left > 0:
                values = (*self._fence, self._lease_ms[queue], queue, self._now_ms)
                self._count({queue: await self._session.run(sql.suspect_lease, *values)})
                self.last = queue
                return

    async def lease(self, most: int) -> None:
        """At most so many of each queue that has room, in their order, until the limit is reached."""
        queues = [queue for queue, room in self._room.items() if room > 0]
        if self.left <= 0 or not queues:
            return
        if most == 1:
            queues = queues[: self.left]
        wanted = [min(most, self._room[queue]) for queue in queues]
        leases = [self._lease_ms[queue] for queue in queues]
        values = (*self._fence, queues, wanted, leases, self._now_ms, self.left)
        got = Counter(row[0] for row in await self._session.rows(sql.ready_lease, *values))
        self._count(got)
        self.last = queues[-1] if self.left > 0 or not got else max(got, key=queues.index)

    def _count(self, got: dict[int, int]) -> None:
        for queue, count in got.items():
            self._room[queue] -= count
            self.left -= count


async def _queues(session: Session, request: ClaimRequest, now_ms: int) -> tuple[list[Row], int | None]:
    """Queues with work that is due and that we serve, and when the next of the others is due."""
    due: list[Row] = []
    next_due: int | None = None
    async for row in _walk(session, request.after_queue):
        id, _, address, kind, due_at = row
        if kind not in request.served.kinds and address not in request.served.addresses:
            continue
        if due_at is None or request.room.get(id, 1) <= 0 or address in request.served.shut:
            continue
        if due_at <= now_ms:
            due.append(row)
            if len(due) == QUEUES_MAX:
                break
        elif next_due is None or due_at < next_due:
            next_due = due_at
    return due, next_due


async def _walk(session: Session, after: int) -> AsyncIterator[Row]:
    """Every queue with unleased work once, page by page: those after the one served last, then the others."""
    for first, last in ((after, _NO_END), (0, after)):
        at, more = first, first < last
        while more:
            page = await session.rows(sql.ready_queues, at, QUEUES_MAX)
            for row in page:
                if row[0] <= last:
                    yield row
            more = len(page) == QUEUES_MAX and page[-1][0] < last
            at = page[-1][0] if page else last

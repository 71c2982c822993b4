"""An outbox for the tests of an application: real SQLite and handlers, without daemon, network or waiting."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from traceback import format_exception
from typing import Any

from holdfast.domain.contract import Criterion
from holdfast.domain.delivery import Claim, Delivered, Outcome
from holdfast.domain.errors import BadInput, Reject, RetryAfter
from holdfast.domain.event import Event
from holdfast.domain.retry import POLICIES
from holdfast.domain.text import short_repr
from holdfast.egress.deliverer import Attempt, Deliverer
from holdfast.egress.engine import Engine
from holdfast.egress.handler.deliverer import HandlerDeliverer, ended_by
from holdfast.egress.webhook.exchange import judge
from holdfast.outbox import Outbox
from holdfast.ports import Inline, NoCounters, SystemChance, SystemClock
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.open import open_store, sqlite_path
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow
from holdfast.store.roles.page import PAGE_MAX
from holdfast.store.roles.store import Store

ERRORS_MAX = 100
Failure = BaseException | type[BaseException] | int

_EVENTS = """SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM holdfast_events ORDER BY n"""


@dataclass(frozen=True, slots=True, repr=False)
class Drained:
    """The result of one `drain`: counts, all dead letters after it, and what failed attempts raised.

    `unmatched`: events of this drain that no contract matches, so a test that forgot `include()` sees why nothing ran.
    """

    delivered: int
    failed: int
    dead: list[DeliveryRow]
    errors: list[BaseException] = field(default_factory=list, compare=False)
    unmatched: int = field(default=0, compare=False)

    def __repr__(self) -> str:
        """On one line, as a failed assertion shows it: the counts, what was raised, and what may be missing."""
        parts = [f"delivered={self.delivered}", f"failed={self.failed}", f"dead={len(self.dead)}"]
        if self.errors:
            parts.append(f"errors={self.errors!r}")
        if self.unmatched:
            parts.append(f"unmatched={self.unmatched}: no contract matched; is include(outbox) missing?")
        return f"Drained({', '.join(parts)})"

    def __str__(self) -> str:
        """The counts in a line, then the traceback of each exception."""
        lines = [f"{self.delivered} delivered, {self.failed} failed, {len(self.dead)} dead"]
        if self.unmatched:
            lines.append(f"{self.unmatched} matched no contract; include(outbox) adds those of your application")
        return "\n".join(lines + ["".join(format_exception(error)) for error in self.errors])


class RecordingOutbox(Outbox):
    """The value of the pytest fixture `holdfast_outbox`.

    def test_an_order_is_shipped(holdfast_outbox):
        holdfast_outbox.include(shop.outbox)
        shop.place_order(holdfast_outbox.connection(), "tea")
        assert [event.payload for event in holdfast_outbox.published("order.*")] == [{"item": "tea"}]
        assert holdfast_outbox.drain().delivered == 1
    """

    def __init__(self, path: Path) -> None:
        super().__init__(f"sqlite:///{path}")
        self.migrate()
        self.sent: list[tuple[str, Event]] = []
        self._clock = _MovedClock()
        self._failures: deque[Failure] = deque()
        self._raised: deque[BaseException] = deque(maxlen=ERRORS_MAX)
        self._opened: list[sqlite3.Connection] = []

    def include(self, outbox: Outbox) -> None:
        """Copy the handlers and contracts that the application registered on its own outbox."""
        if not isinstance(outbox, Outbox):
            raise BadInput(f"include() takes the application's Outbox, not {short_repr(outbox)}")
        self.handlers.update(outbox.handlers)
        for contract in outbox.contracts.all():
            self.contracts.register(contract)

    def connection(self) -> sqlite3.Connection:
        """A connection to the database with the settings Holdfast needs; closed when the test ends."""
        made = sqlite3.connect(sqlite_path(self.url), check_same_thread=False, factory=_TestConnection)
        self.prepare(made)
        self._opened.append(made)
        return made

    def published(self, pattern: str = "*") -> list[Event]:
        """The committed events whose type matches `pattern`, oldest first."""
        criterion = Criterion(pattern=pattern)
        with closing(sqlite3.connect(sqlite_path(self.url))) as connection:
            return [
                event for event in (Event(*row) for row in connection.execute(_EVENTS)) if criterion.passes(event.type)
            ]

    def fail_next(self, failure: Failure, times: int = 1) -> None:
        """Make the next `times` attempts fail, with a handler's exception or a receiver's HTTP status."""
        raisable = isinstance(failure, BaseException) or (
            isinstance(failure, type) and issubclass(failure, BaseException)
        )
        if not raisable and not (isinstance(failure, int) and 300 <= failure <= 599):
            raise BadInput(
                f"fail_next() takes an exception or an HTTP status from 300 to 599, not {short_repr(failure)}"
            )
        if times < 1:
            raise BadInput(f"times must be at least 1, not {times}")
        self._failures.extend([failure] * times)

    def advance(self, seconds: float) -> None:
        """Move the clock forward, so that waiting retries become due."""
        value: Any = seconds
        if not isinstance(value, int | float) or not value >= 0:
            raise BadInput(f"advance() takes a number of seconds, 0 or more, not {short_repr(value)}")
        self._clock.ahead_ms += round(seconds * 1000)

    def drain(self) -> Any:
        """Route and deliver until nothing is due. In a coroutine: `await outbox.drain()`.

        Handlers run; webhooks are not sent, but recorded in `sent` as (url, event).
        """
        work = self._drain()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(work)
        return work

    def close(self) -> None:
        for connection in self._opened:
            connection.close()

    async def _drain(self) -> Drained:
        store = open_store(
            self.url, driver="sqlite3", keep=True, own=False, clock=self._clock, executor=lambda name: Inline()
        )
        try:
            for contract in self.contracts.all():
                await store.contracts.put(contract, None)
            return await self._deliver(store)
        finally:
            await store.close()

    async def _deliver(self, store: Store) -> Drained:
        owner = await store.owners.register()
        registry = Registry(store.contracts, POLICIES, readers=store.readers)
        await registry.refresh()
        handlers = HandlerDeliverer()
        for name, function in self.handlers.items():
            handlers.add(name, function)
        deliverers: dict[str, Deliverer] = {"handler": _Scripted(handlers, self), "https": _Scripted(None, self)}
        engine = Engine(store.deliveries, owner, deliverers, registry.terms_of, self._clock, SystemChance())
        counted = _Counted()
        self._raised.clear()
        await _settle_all(Router(store.routing, registry, counters=counted), engine)
        dead = await store.operator.deliveries(DeliveryFilter(state="dead"), None, PAGE_MAX)
        await engine.stop(0)
        await store.owners.retire(owner)
        return Drained(engine.delivered, engine.failed, dead.items, list(self._raised), counted.unmatched)

    def _next_failure(self) -> Failure | None:
        return self._failures.popleft() if self._failures else None


async def _settle_all(router: Router, engine: Engine) -> None:
    """Route, claim and settle in turns until a turn changes nothing. Handlers may publish more events."""
    finished = asyncio.Event()
    engine.wake = finished.set
    while True:
        before = router.routed, engine.delivered
        while await router.tick() is not None:
            pass
        finished.clear()
        delay = await engine.tick()
        if engine.in_flight:
            await finished.wait()
        elif delay != 0.0 and (router.routed, engine.delivered) == before:
            return


class _Scripted:
    """A deliverer that first applies the failures of `fail_next`. Without an inner deliverer it only records."""

    def __init__(self, inner: HandlerDeliverer | None, outbox: RecordingOutbox) -> None:
        self.kind = "https" if inner is None else inner.kind
        self._inner, self._outbox = inner, outbox

    def serves(self) -> frozenset[str] | None:
        return None if self._inner is None else self._inner.serves()

    async def deliver(self, claim: Claim, attempt: Attempt) -> Outcome:
        try:
            return await self._deliver(claim, attempt)
        except Exception as error:
            self._outbox._raised.append(error)
            raise

    async def _deliver(self, claim: Claim, attempt: Attempt) -> Outcome:
        failure = self._outbox._next_failure()
        if isinstance(failure, int):
            return judge(failure, None, {"status": failure})
        if failure is not None:
            try:
                raise failure
            except (Reject, RetryAfter) as error:
                return ended_by(error)
        if self._inner is not None:
            return await self._inner.deliver(claim, attempt)
        self._outbox.sent.append((claim.delivery.address, claim.event))
        return Delivered()

    async def close(self) -> None:
        pass


class _Counted(NoCounters):
    """Counts events that no contract matches."""

    unmatched = 0

    def routed(self, events: int, deliveries: int, unmatched: int) -> None:
        self.unmatched += unmatched


class _TestConnection(sqlite3.Connection):
    """A connection that an outbox on PostgreSQL accepts too, so that an application is tested without a server."""

    replaces_any_database = True


class _MovedClock(SystemClock):
    """The machine's clock, ahead by the time passed to `advance`."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

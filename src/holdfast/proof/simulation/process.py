"""One simulated process: it opens the store and runs the real duties, and may be killed at any step."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, NoReturn, TypeVar

from holdfast.agents.hooks.decoder import HookDecoder
from holdfast.daemon.loop import Duty, Loop
from holdfast.domain.errors import HoldfastError, StoreBusy
from holdfast.egress.deliverer import Deliverer
from holdfast.egress.engine import Engine
from holdfast.egress.gatekeeper import Gatekeeper
from holdfast.ingress.importer import SpoolImport
from holdfast.operations.duties.sweeper import Sweeper
from holdfast.proof.simulation.clock import SkewedClock
from holdfast.proof.simulation.deliverers import SimHandler, SimWebhook
from holdfast.proof.simulation.driver import SimConnection
from holdfast.proof.simulation.environment import Environment
from holdfast.proof.simulation.fixtures import CONTRACTS, POLICIES
from holdfast.proof.simulation.ledger import LifeRecord
from holdfast.proof.simulation.loop import Crash, Life
from holdfast.proof.simulation.wrappers import (
    CrashingEvents,
    RecordedDeliveries,
    RecordedGates,
    SingleBatchRouting,
    SlowPolledDuty,
)
from holdfast.routing.registry import Refreshing, Registry
from holdfast.routing.router import Router
from holdfast.store.roles.deliveries import Deliveries
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.routing import Routing
from holdfast.store.sqlite.disk import DiskSpace
from holdfast.store.sqlite.store import SqliteStore, inline_executor
from holdfast.testing.clock import SeededChance

T = TypeVar("T")

ROOM = DiskSpace(0, 0, lambda folder: 1 << 40)
"""A disk that is never full: full disks are tested elsewhere."""

NEVER_S = 1e9


class Died(Exception):
    """The process died before it answered."""


class CannotOpen(Exception):
    """Opening the store failed with an error."""


class Process:
    def __init__(self, world: Environment, name: str, keep: bool) -> None:
        self.world, self.name, self.keep = world, name, keep
        self.life = Life(name)
        self.note = world.ledger.lives[name] = LifeRecord(name)
        self.owner: Owner
        self.engine: Engine
        self.store: SqliteStore
        self.started = False
        self.crash_point: tuple[str, int] | None = None
        self.crash_in: int | None = None
        self.died: asyncio.Future[None] = world.loop.create_future()
        self.clock = SkewedClock(world.clock, world.injector.draw_skew_ms())
        self._chance = SeededChance(world.chance.getrandbits(64))
        self._context = self.life.context()
        self._calls: dict[
            asyncio.Future[Any], None
        ] = {}  # a dict keeps the order; the order of a set depends on addresses
        self._writer: SimConnection | None = None

    def open(self, crash_after: int | None) -> None:
        """Open the store, creating or migrating it if needed. `crash_after`: die after so many statements."""
        world, countdown = self.world, self.world.workspace.countdown
        if crash_after is not None:
            countdown.start_counting(crash_after)
        try:
            self.store = SqliteStore.open(
                world.workspace.path, driver=world.workspace.driver, keep=self.keep,
                clock=world.mutant.clock(self.clock), chance=self._chance, executor=inline_executor, probe=self._probe,
                disk_space=ROOM,
            )  # fmt: skip
        except Crash as crash:
            for connection in countdown.connections:
                connection.close()
            world.ledger.fault("crash while opening")
            self.kill(str(crash))
            return
        except HoldfastError as error:
            raise CannotOpen(f"{self.name} cannot open the store: {error}") from error
        finally:
            countdown.stop_counting()
        writer = self.store._writer._connection
        assert isinstance(writer, SimConnection)
        self._writer = writer
        writer.watch(world.note_change)
        self.intake = world.mutant.intake(self.store)
        world.errors += [f"{self.name} finds {what}" for what in world.observer.stray()]
        self.log("opens the store")

    async def start(self) -> None:
        """Start as a daemon does: register, register contracts, start the duties."""
        store, world, mutant = self.store, self.world, self.world.mutant
        self.owner = await store.owners.register()
        self.note.owner = self.owner.id
        if self.keep:
            for contract in CONTRACTS:
                await store.contracts.put(contract, None, keep=True, by=self.owner.acting("application"))
        handlers = SimHandler(self)
        await store.deliveries.record_served(sorted(handlers.serves() or ()))
        registry = Registry(store.contracts, POLICIES, readers=store.readers)
        await registry.refresh()
        self.loop = loop = Loop(self._chance)
        deliveries: Deliveries = mutant.deliveries(RecordedDeliveries(self, store.deliveries), store)
        deliverers: dict[str, Deliverer] = {
            deliverer.kind: mutant.deliverer(deliverer) for deliverer in (handlers, SimWebhook(self))
        }
        gatekeeper = None
        if world.swarm.outages:
            gatekeeper = Gatekeeper(RecordedGates(self, store.gates), self.owner, self.clock)
        self.engine = engine = Engine(
            deliveries, self.owner, deliverers, mutant.terms(registry.terms_of), self.clock, self._chance,
            capacity=1 if world.swarm.batch_of_one else 1000, gatekeeper=gatekeeper,
        )  # fmt: skip
        wake = loop.add(SlowPolledDuty(world, mutant.engine(engine), mutant.poll_s), poll_s=NEVER_S)
        engine.wake = lambda: None if self._drops() else wake()
        if gatekeeper is not None:
            gatekeeper.wake = loop.add(SlowPolledDuty(world, gatekeeper), poll_s=NEVER_S)
            gatekeeper.freed = engine.wake
        engine.deadlines.wake = loop.add(SlowPolledDuty(world, engine.deadlines), poll_s=NEVER_S)
        if mutant.renews:
            engine.renewal.wake = loop.add(engine.renewal, poll_s=NEVER_S)
        for duty in self._duties(engine, deliveries, handlers, registry):
            loop.add(SlowPolledDuty(world, duty), poll_s=NEVER_S)
        store.on_change(self._changed)
        self.started = True
        self.log("is running")

    def _duties(self, engine: Engine, deliveries: Deliveries, handlers: SimHandler, registry: Registry) -> list[Duty]:
        world, mutant = self.world, self.world.mutant
        duties: list[Duty] = [Refreshing(registry)]
        if mutant.sweeps:
            served = lambda: handlers.serves() or frozenset()  # noqa: E731
            duties.append(Sweeper(deliveries, self.owner, served, self.clock, lambda: engine.held_ids))
        if self.keep:
            routing: Routing = (
                SingleBatchRouting(self.store.routing) if world.swarm.batch_of_one else self.store.routing
            )
            duties.append(mutant.router(Router(routing, registry), registry, self.store))
            events = CrashingEvents(self, mutant.events(self.store, world.workspace.spool))
            duties.append(SpoolImport(world.workspace.spool, events, world.clock, [HookDecoder()]))
        return duties

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work in the process from outside; raises `Died` if the process dies first."""
        if self.life.dead:
            work.close()
            raise Died(self.name)
        answer: asyncio.Future[T] = self.world.loop.create_future()
        self._calls[answer] = None
        task = self.world.loop.create_task(work, context=self._context.copy())
        task.add_done_callback(lambda done: _pass_on(done, answer), context=Context())
        try:
            return await answer
        finally:
            self._calls.pop(answer, None)

    async def stop(self) -> None:
        """Stop in order, as a daemon does: no lease may remain."""
        self.note.stopping = True
        others = [name for name in self.loop.health() if name not in ("engine", "renewal", "deadlines")]
        await self.loop.stop(others)
        await self.engine.stop(self.world.chance.choice((0.0, 0.5, 5.0)))
        await self.loop.stop()
        await self.store.owners.retire(self.owner)
        await self.store.close()

    def kill(self, why: str) -> None:
        """Kill it from outside: none of its steps runs again, and its open transaction is lost."""
        if self.life.dead:
            return
        self.log(f"dies: {why}")
        self.life.dead, self.note.died_n = True, self.world.ledger.next_n()
        self.release_files()
        for answer in list(self._calls):
            if not answer.done():
                answer.set_exception(Died(self.name))
        self.died.set_result(None)

    def release_files(self) -> None:
        """What the operating system does for a dead process: close files, free locks, commit nothing."""
        if self._writer is None:
            return
        store = self.store
        for connection in (store._writer._connection, store._reader._connection, store._maintenance_connection):
            connection.close()
        if store._keeper is not None:
            store._keeper.release()

    def abandon(self) -> None:
        """The schedule has ended: drop the process without a record."""
        if not self.life.dead:
            self.life.dead = True
            self.release_files()

    def crash(self, why: str) -> NoReturn:
        """Kill it from inside one of its own steps."""
        self.kill(why)
        raise Crash(why)

    def leaked(self) -> str | None:
        """What the engine still counts as held although nothing is pending."""
        held = {id: queue.held_count for id, queue in self.engine._queues.items() if queue.held_count}
        in_hand = sorted(self.engine._held)
        return f"{self.name} counts {held} as held, and holds {in_hand}" if held or in_hand else None

    def log(self, line: str) -> None:
        self.world.ledger.log(self.world.loop.time(), f"{self.name} {line}")

    def before_step(self) -> None:
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.world.ledger.fault("crash between two steps")
                self.kill("between two steps")

    def _probe(self, point: str) -> None:
        world = self.world
        if point == "after_commit" and self._writer is not None and (touched := self._writer.touched()):
            world.observer.look(world.loop.time(), touched)
        if self.crash_point is not None and self.crash_point[0] == point:
            left = self.crash_point[1] - 1
            self.crash_point = (point, left)
            if left < 0:
                world.ledger.fault(f"crash at {point}")
                self.crash(f"at {point}")
        if point != "after_commit" and world.is_busy():
            world.ledger.fault("database busy")
            raise StoreBusy("simulated: another writer holds the lock")

    def _drops(self) -> bool:
        dropped = self.world.drops_wake()
        if dropped:
            self.world.ledger.fault("wake-up dropped")
        return dropped

    def _changed(self, topic: str) -> None:
        if self._drops():
            return
        duties = {"events": ("router",), "deliveries": ("engine",)}.get(topic, ("router", "sweeper"))
        self.loop.wake(*duties)


def _pass_on(done: asyncio.Task[T], answer: asyncio.Future[T]) -> None:
    if answer.done():
        return
    error = done.exception() if not done.cancelled() else Died("cancelled")
    if isinstance(error, Crash):
        answer.set_exception(Died("crashed"))
    elif error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())

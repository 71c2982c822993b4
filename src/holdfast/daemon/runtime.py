"""The wiring: from a configuration to a working runtime. Nothing else in the package knows all rooms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from holdfast.agents.hooks.decoder import HookDecoder
from holdfast.agents.receiver.fallback_folders import count_waiting, recent_failures
from holdfast.agents.receiver.spool_duty import SpoolDuty
from holdfast.agents.sessions.consumer import SessionConsumer
from holdfast.agents.transcripts.follower import Follower, Pace, Start
from holdfast.agents.transcripts.places import find_transcript
from holdfast.agents.transcripts.reader import last_words
from holdfast.config.config import Config
from holdfast.config.subscriptions import adopt
from holdfast.daemon.builtins import BUILTINS
from holdfast.daemon.loop import Loop
from holdfast.daemon.loop_monitor import LoopMonitor
from holdfast.domain.address import KINDS
from holdfast.domain.contract import Contract
from holdfast.domain.delivery import Claim, Outcome
from holdfast.domain.errors import BadConfig
from holdfast.domain.event import Event
from holdfast.domain.session import STREAM_PREFIX
from holdfast.egress.deliverer import DelivererContext, load_deliverers
from holdfast.egress.engine import Engine
from holdfast.egress.gatekeeper import Gatekeeper
from holdfast.egress.handler.deliverer import HandlerDeliverer
from holdfast.egress.webhook.deliverer import WebhookDeliverer
from holdfast.egress.webhook.requests import ContractRequests
from holdfast.file_watch import FileWatch, NoWatch, open_file_watch
from holdfast.home import Home
from holdfast.ingress.importer import SpoolImport
from holdfast.ingress.lateness import Lateness
from holdfast.ingress.webhook import InboundSource, normalizing
from holdfast.ingress.webhook.platforms import find_normalizer
from holdfast.ingress.webhook.platforms.platform import Normalizer
from holdfast.net.guard import Guard
from holdfast.operations.context import OperationsContext
from holdfast.operations.duties.change_watch import ChangeWatch
from holdfast.operations.duties.checkpointer import Checkpointer
from holdfast.operations.duties.contract_sweep import ContractSweep
from holdfast.operations.duties.integrity_check import IntegrityCheck
from holdfast.operations.duties.pruner import Pruner
from holdfast.operations.duties.sweeper import Sweeper
from holdfast.operations.registration import register
from holdfast.operations.system_events import SystemEvents
from holdfast.operations.verbs import Operations
from holdfast.ports import Chance, Clock, SystemChance, SystemClock, Threads
from holdfast.routing.registry import Refreshing, Registry
from holdfast.routing.router import Router
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.store import Feature, Store
from holdfast.version import __version__

POLL_S, NOTIFIED_POLL_S = 1.0, 5.0
"""How often duties look for work that nothing told them of: on SQLite every commit is noticed, so less often."""
LEFT_MAX = 5


class Runtime:
    """A store, its duties and its verbs. `start` begins to work, `stop` ends in order."""

    def __init__(
        self,
        store: Store,
        config: Config,
        home: Home | None,
        *,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
        normalizers: Mapping[str, Normalizer] | None = None,
        contracts: list[Contract] | None = None,
        modules: Callable[[], frozenset[str]] = frozenset,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        self.store, self.config, self.home = store, config, home
        self._clock, self._chance = clock or SystemClock(), chance or SystemChance()
        self._contracts = contracts or []
        self._modules = modules
        self.guard = Guard(config.egress_allow)
        self.handlers = HandlerDeliverer()
        self._sessions = SessionConsumer(store.sessions, last_words, find_transcript)
        self._follower: Follower | None = None
        self._reading = Threads("transcripts")
        self.handlers.add("sessions", self._consume)
        for name, function in {**BUILTINS, **(handlers or {})}.items():
            if name == "sessions":
                raise BadConfig("the handler name 'sessions' is reserved; choose another name")
            self.handlers.add(name, function)
        for source in config.inbound:
            self._serve_inbound(source, normalizers or {})
        self._registry = registry = Registry(store.contracts, config.policies, config.interval_us)
        self._system_events = SystemEvents(store, registry, self._clock, config.disable_after_ms)
        self._webhooks = WebhookDeliverer(
            self.guard,
            ContractRequests(registry, self._clock).options,
            self._clock,
            user_agent=f"holdfast/{__version__}",
            trusted=registry.is_trusted,
            gone=self._system_events.contract_gone,
            concurrency_per_host=config.concurrency_per_host,
            proxies=config.proxies,
            timeout=lambda contract_id: registry.terms_of(contract_id, "https").timeout_s,
            total_s=KINDS["https"].timeout_s,
        )
        self._spool: SpoolImport | None = None
        self._poll_s = NOTIFIED_POLL_S if Feature.ONE_KEEPER in store.features else POLL_S
        self._files: FileWatch = NoWatch()
        self._monitor: LoopMonitor | None = None
        self._lateness = Lateness()
        self._owner: Owner | None = None
        self.loop: Loop
        self.engine: Engine
        self.operations: Operations

    def _serve_inbound(self, source: InboundSource, normalizers: Mapping[str, Normalizer]) -> None:
        """Normalize what a source sent. An application that takes no requests may leave it to who does."""
        try:
            normalizer = find_normalizer(
                source.normalizer, source.name, normalizers, source.type_header, source.type_field
            )
        except BadConfig:
            if self.home is not None:
                raise
            return
        self.handlers.add(f"inbound.{source.name}", normalizing(source.name, normalizer))

    async def start(self) -> None:
        """Store and engine first: what waits is on its way before any surface is open.

        If the store cannot be reached it raises `StoreBusy`, and may be called again.
        """
        store, config, clock, registry = self.store, self.config, self._clock, self._registry
        if self._owner is None:
            self._owner = await store.owners.enlist()
        owner = self._owner
        alone = Feature.ONE_KEEPER in store.features
        await register(store.contracts, self._modules(), self._contracts, alone=alone)
        await store.deliveries.record_served(sorted(self.handlers.serves() or ()))
        digest = await adopt(store.contracts, config.subscriptions, config.policies, clock.now_ms())
        await registry.refresh()
        if any(queue.kind == "https" for queue in await store.contracts.queues()):
            await self._webhooks.start()  # before anybody is busy
        self.loop = loop = Loop(self._chance)
        self._files = open_file_watch()
        self._add_engine(owner)
        self._add_duties(owner, digest)
        store.on_change(self._changed)
        store.on_failure(loop.fail)
        self.operations = Operations(
            OperationsContext(
                store=store,
                owner=owner,
                guard=self.guard,
                policies=config.policies,
                retention=config.retention,
                clock=clock,
                chance=self._chance,
                health=loop.health,
                spooled=self._spooled,
                served=lambda: self.handlers.serves() or frozenset(),
                warnings=self._warnings,
                hooks=self._hooks,
                faults=registry.faults,
            )
        )

    def _add_engine(self, owner: Owner) -> None:
        """The engine, and the gatekeeper that says which addresses it may try."""
        store, config, clock, loop = self.store, self.config, self._clock, self.loop
        deliverers = load_deliverers([self.handlers, self._webhooks], DelivererContext(clock, self.guard))
        gatekeeper = Gatekeeper(
            store.gates, owner, clock, config.capacity, self._system_events.breaker_changed, self._webhooks.start
        )
        self.engine = Engine(
            store.deliveries,
            owner,
            deliverers,
            self._registry.terms_of,
            clock,
            self._chance,
            capacity=config.capacity,
            poll_s=self._poll_s,
            gatekeeper=gatekeeper,
            delivery_dead=self._system_events.delivery_dead,
            blocked_queues=self._registry.blocked_queues,
        )
        gatekeeper.wake = loop.add(gatekeeper, self._poll_s)
        gatekeeper.freed = lambda: loop.wake("engine")
        self.engine.wake = loop.add(self.engine, self._poll_s)
        self.engine.deadlines.wake = loop.add(self.engine.deadlines, poll_s=5.0)
        self.engine.renewal.wake = loop.add(self.engine.renewal, poll_s=5.0)
        self._monitor = LoopMonitor(self.engine.busy, self._name_of)
        self._monitor.start()

    def _add_duties(self, owner: Owner, digest: str | None) -> None:
        """Everything else that is done again and again."""
        store, config, clock, loop, registry = self.store, self.config, self._clock, self.loop, self._registry
        loop.add(Router(store.routing, registry, owner), self._poll_s)
        loop.add(Refreshing(registry), self._poll_s)
        served = lambda: self.handlers.serves() or frozenset()  # noqa: E731
        loop.add(Sweeper(store.deliveries, owner, served, clock, lambda: self.engine.held_ids), poll_s=60.0)
        self._contract_sweep = ContractSweep(
            store.contracts, store.routing, clock, digest, registry.forget_private, self._modules, self._contracts
        )
        loop.add(self._contract_sweep, poll_s=60.0)
        loop.add(Pruner(store.maintenance, config.retention, config.prune_every_s), poll_s=config.prune_every_s)
        loop.add(Checkpointer(store.maintenance), poll_s=60.0)
        watch = ChangeWatch(
            store.maintenance, lambda: loop.wake("router", "engine", "registry", "contracts", "sweeper")
        )
        watch.watch(self._files)
        watch.wake = loop.add(watch, poll_s=60.0)
        if owner.unclean:
            loop.add(IntegrityCheck(store.maintenance), poll_s=3600.0)
        if self.home is not None:
            self._spool = self._importer(self.home.spool)
            spool_duty = SpoolDuty(self.home.root, self._spool, self._importer)
            spool_duty.watch(self._files, loop.add(spool_duty, poll_s=60.0))
            if config.transcripts != "off":
                pace = Pace(start=cast(Start, config.transcripts))
                self._follower = Follower(store, clock, self._reading, pace=pace)
                self._follower.wake = loop.add(self._follower, poll_s=5.0)

    async def stop(self, grace_s: float | None = None) -> list[Claim]:
        """Take in no more, finish what has begun, settle, and leave the store clean.

        What is returned could not be stopped and runs until the process ends. Then the store stays open: what proves
        that this process lives also keeps others from running the same deliveries beside it.
        """
        self._files.close()
        await self.loop.stop([name for name in self.loop.health() if name not in ("engine", "renewal", "deadlines")])
        running = await self.engine.stop(self.config.grace_s if grace_s is None else grace_s)
        if self._monitor is not None:
            self._monitor.stop()
        await self.loop.stop()
        self._reading.close()
        if running:
            return running
        if self._owner is not None:
            await self.store.owners.retire(self._owner)
        await self.store.maintenance.checkpoint()
        await self.store.close()
        return []

    async def abandon(self) -> None:
        """Let go of a store that failed: nothing more is written to it."""
        self._files.close()
        if self._monitor is not None:
            self._monitor.stop()
        await self.loop.stop()
        self._reading.close()
        await self.store.close()

    def left(self) -> str:
        """What still runs, for an operator who stops this process. It may be called from another thread."""
        running = self.engine.running() if hasattr(self, "engine") else []
        if not running:
            return "What was accepted is kept, and goes on with the next start."
        named = "; ".join(f"{claim.delivery.address} with event {claim.event.id}" for claim in running[:LEFT_MAX])
        more = f"; and {len(running) - LEFT_MAX} more" if len(running) > LEFT_MAX else ""
        what = "1 delivery was" if len(running) == 1 else f"{len(running)} deliveries were"
        return f"{what} cut off and will run again with the next start: {named}{more}."

    def _name_of(self, task: object) -> str | None:
        """What a task of the engine delivers, for the log."""
        claim = self.engine.claim_of(task)
        return None if claim is None else f"{claim.delivery.address} (event {claim.event.id})"

    async def _consume(self, event: Event) -> Outcome:
        """A hook of an agent: bring its session up to date, and look at what it wrote meanwhile."""
        outcome = await self._sessions.handle(event)
        if self._follower is not None:
            self._follower.nudge(event.stream.removeprefix(STREAM_PREFIX))
        return outcome

    def _importer(self, folder: Path) -> SpoolImport:
        decoders = [HookDecoder(self.config.session_events)]
        return SpoolImport(folder, self.store.events, self._clock, decoders, self._lateness)

    def _warnings(self) -> list[str]:
        failures = [] if self.home is None else recent_failures(self.home.root, self._clock.now_ms())
        return [*filter(None, [self._contract_sweep.warning]), *failures]

    def _spooled(self) -> int:
        return count_waiting(self.home.root) if self.home is not None else 0

    def _hooks(self) -> dict[str, int]:
        """What became of agents' hooks that were not appended, since this process began."""
        spool = self._spool
        return {} if spool is None else {"unlisted": spool.unlisted, "repeated": spool.repeated}

    def _changed(self, topic: str) -> None:
        """A commit of this process: wake who has work now."""
        if topic == "events":
            self.loop.wake("router")
        elif topic == "deliveries":
            self.loop.wake("engine")
        else:
            self.loop.wake("router", "sweeper", "registry", "contracts")

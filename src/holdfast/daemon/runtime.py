"""The runtime: a store with its deliverers, background duties and operator verbs, in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.config.config import Config
from holdfast.config.subscriptions import adopt
from holdfast.daemon.agent_duties import AgentDuties
from holdfast.daemon.deliverers import add_inbound, build_handlers, build_webhooks
from holdfast.daemon.duties import add_duties
from holdfast.daemon.loop import Loop
from holdfast.daemon.loop_monitor import LoopMonitor
from holdfast.domain.contract import Contract
from holdfast.domain.delivery import Claim
from holdfast.egress.deliverer import DelivererContext, load_deliverers
from holdfast.egress.engine import Engine
from holdfast.egress.gatekeeper import Gatekeeper
from holdfast.file_watch import FileWatch, NoWatch, open_file_watch
from holdfast.home import Home
from holdfast.ingress.webhook.platforms.platform import Normalizer
from holdfast.net.guard import Guard
from holdfast.operations.context import OperationsContext
from holdfast.operations.duties.contract_sweep import ContractSweep
from holdfast.operations.duties.sweeper import Sweeper
from holdfast.operations.registration import register
from holdfast.operations.system_events import SystemEvents
from holdfast.operations.verbs import Operations
from holdfast.ports import Chance, Clock, SystemChance, SystemClock
from holdfast.routing.registry import Registry
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.store import Feature, Store

POLL_S, NOTIFIED_POLL_S = 1.0, 5.0
"""How often duties look for work without being woken. On SQLite every commit wakes them, so less often."""
NAMED_MAX = 5  # how many unfinished deliveries a message names


class Runtime:
    """Works on a store from `start` until `stop`: in the daemon, or inside an application (then without a home)."""

    loop: Loop
    engine: Engine
    operations: Operations

    def __init__(
        self,
        store: Store,
        config: Config,
        home: Home | None,
        *,
        handlers: Mapping[str, Callable[..., object]] | None = None,
        normalizers: Mapping[str, Normalizer] | None = None,
        contracts: list[Contract] | None = None,
        modules: Callable[[], frozenset[str]] = frozenset,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        self.store, self.config, self.home = store, config, home
        self._clock, self._chance = clock or SystemClock(), chance or SystemChance()
        self._contracts, self._modules = contracts or [], modules
        self.guard = Guard(config.egress_allow)
        self._agents = AgentDuties(store, config, home, self._clock)
        self.handlers = build_handlers({"sessions": self._agents.handle}, handlers or {})
        add_inbound(self.handlers, config, normalizers or {}, required=home is not None)
        self._registry = Registry(store.contracts, config.policies, config.interval_us)
        self._system_events = SystemEvents(store, self._registry, self._clock, config.disable_after_ms)
        self._webhooks = build_webhooks(config, self.guard, self._registry, self._system_events, self._clock)
        self._poll_s = NOTIFIED_POLL_S if Feature.ONE_KEEPER in store.features else POLL_S
        self._files: FileWatch = NoWatch()
        self._monitor: LoopMonitor | None = None
        self._owner: Owner | None = None

    async def start(self) -> None:
        """Start the engine and all duties, so that pending deliveries resume before any surface is open.

        Raises `StoreBusy` if the store cannot be reached; `start` may then be called again.
        """
        store, registry = self.store, self._registry
        if self._owner is None:
            self._owner = await store.owners.enlist()
        digest = await self._put_contracts()
        await registry.refresh()
        if any(queue.kind == "https" for queue in await store.contracts.queues()):
            await self._webhooks.start()  # its imports are slow once the event loop is busy
        self.loop = Loop(self._chance)
        self._files = open_file_watch()
        self._add_engine(self._owner)
        sweeper = Sweeper(store.deliveries, self._owner, self._served, self._clock, lambda: self.engine.held_ids)
        sweep = ContractSweep(
            store.contracts, store.routing, self._clock, digest, registry.forget_private, self._modules, self._contracts
        )
        add_duties(
            self.loop, self._files, store, self.config, self._owner, registry, sweeper, sweep, poll_s=self._poll_s
        )
        self._agents.add_to(self.loop, self._files)
        store.on_change(self._wake_for)
        store.on_failure(self.loop.fail)
        self.operations = self._build_operations(self._owner, sweep)

    async def _put_contracts(self) -> str | None:
        """Store the contracts of the code and of the configuration file. Returns the digest of the latter."""
        store, config = self.store, self.config
        alone = Feature.ONE_KEEPER in store.features
        await register(store.contracts, self._modules(), self._contracts, alone=alone)
        await store.deliveries.record_served(sorted(self._served()))
        return await adopt(store.contracts, config.subscriptions, config.policies, self._clock.now_ms())

    def _add_engine(self, owner: Owner) -> None:
        """Add the engine, and the gatekeeper that decides which addresses it may try."""
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
        self._monitor = LoopMonitor(self.engine.busy, self._describe_task)
        self._monitor.start()

    def _build_operations(self, owner: Owner, contract_sweep: ContractSweep) -> Operations:
        agents = self._agents
        return Operations(
            OperationsContext(
                store=self.store,
                owner=owner,
                guard=self.guard,
                policies=self.config.policies,
                retention=self.config.retention,
                clock=self._clock,
                chance=self._chance,
                health=self.loop.health,
                spooled=agents.spooled,
                served=self._served,
                warnings=lambda: [*filter(None, [contract_sweep.warning]), *agents.warnings()],
                hooks=agents.hook_counts,
                faults=self._registry.faults,
            )
        )

    async def stop(self, grace_s: float | None = None) -> list[Claim]:
        """Start nothing new, let running deliveries finish for `grace_s`, settle them and close the store.

        Returns the deliveries that could not be stopped; they run until the process ends. The store then stays open:
        the lock that shows this process to be alive also keeps others from running the same deliveries.
        """
        self._files.close()
        await self.loop.stop([name for name in self.loop.health() if name not in ("engine", "renewal", "deadlines")])
        running = await self.engine.stop(self.config.grace_s if grace_s is None else grace_s)
        await self._stop_all()
        if running:
            return running
        if self._owner is not None:
            await self.store.owners.retire(self._owner)
        await self.store.maintenance.checkpoint()
        await self.store.close()
        return []

    async def abandon(self) -> None:
        """Close a store that failed, writing nothing more to it."""
        self._files.close()
        await self._stop_all()
        await self.store.close()

    async def _stop_all(self) -> None:
        if self._monitor is not None:
            self._monitor.stop()
        await self.loop.stop()
        self._agents.close()

    def describe_unfinished(self) -> str:
        """A sentence about what still runs, for the operator who stops this process. Safe to call from any thread."""
        running = self.engine.running() if hasattr(self, "engine") else []
        if not running:
            return "Accepted events are kept and will be delivered after the next start."
        named = "; ".join(f"{claim.delivery.address} with event {claim.event.id}" for claim in running[:NAMED_MAX])
        more = f"; and {len(running) - NAMED_MAX} more" if len(running) > NAMED_MAX else ""
        count = "1 delivery was" if len(running) == 1 else f"{len(running)} deliveries were"
        return f"{count} interrupted and will run again after the next start: {named}{more}."

    def _describe_task(self, task: object) -> str | None:
        """Which delivery a task of the engine runs, for the log."""
        claim = self.engine.claim_of(task)
        return None if claim is None else f"{claim.delivery.address} (event {claim.event.id})"

    def _served(self) -> frozenset[str]:
        return self.handlers.serves() or frozenset()

    def _wake_for(self, topic: str) -> None:
        """Wake the duties that may have work after a commit of this process."""
        if topic == "events":
            self.loop.wake("router")
        elif topic == "deliveries":
            self.loop.wake("engine")
        else:
            self.loop.wake("router", "sweeper", "registry", "contracts")

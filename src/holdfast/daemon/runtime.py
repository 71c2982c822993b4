"""The runtime: a store with its deliverers, background duties and operator verbs, in one process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from holdfast.agents.messages.handler_adapter import SessionHandler
from holdfast.config.config import Config
from holdfast.daemon.agent_duties import AgentDuties
from holdfast.daemon.context import build_context
from holdfast.daemon.contracts import ApplicationContracts, store_contracts
from holdfast.daemon.deliverers import build_deliverers
from holdfast.daemon.duties import add_duties
from holdfast.daemon.engine import add_engine
from holdfast.daemon.loop import Loop
from holdfast.daemon.loop_monitor import LoopMonitor
from holdfast.daemon.publishing import add_publisher, register_sinks, sink_handlers
from holdfast.daemon.reload import POLL_S, WATCHED_POLL_S, ConfigReload
from holdfast.daemon.session_delivery import SessionDelivery
from holdfast.domain.contract import Contract
from holdfast.domain.delivery import Claim
from holdfast.egress.engine import Engine
from holdfast.file_watch import FileWatch, NoWatch, open_file_watch
from holdfast.home import Home
from holdfast.ingress.webhook.platforms.platform import Normalizer
from holdfast.ledger.signed_heads import SignedHeads
from holdfast.operations.answers.events import event_json
from holdfast.operations.context import OperationsContext
from holdfast.operations.duties.contract_sweep import ContractSweep
from holdfast.operations.duties.fleet_watch import POLL_S as FLEET_POLL_S
from holdfast.operations.duties.fleet_watch import FleetWatch
from holdfast.operations.verbs import Operations
from holdfast.ports import Chance, Clock, SystemChance, SystemClock
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.store import Store
from holdfast.streams.live import LiveViews
from holdfast.streams.publisher import Publisher
from holdfast.streams.sink_worker import SinkWorker
from holdfast.streams.statistics import SinkStatistics

LIVE_POLL_S = 3600.0  # without clients there is nothing to poll for
NAMED_MAX = 5  # how many unfinished deliveries a message names


class Runtime:
    """Works on a store from `start` until `stop`: in the daemon, or inside an application (then without a home)."""

    loop: Loop
    engine: Engine
    operations: Operations
    live: LiveViews

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
        session_handlers: Mapping[str, SessionHandler] | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
        loopback_ports: Collection[int] = (),
    ) -> None:
        self.store, self.config = store, config
        clock, chance = clock or SystemClock(), chance or SystemChance()
        self._context = build_context(store, config, home, clock, chance, loopback_ports)
        self._registered = ApplicationContracts(contracts or (), modules)
        delivery = SessionDelivery(self._context, session_handlers or {})
        self._agents = AgentDuties(self._context, delivery)
        reserved = {**self._agents.handlers(), **sink_handlers(self._context, lambda: self._publisher)}
        self.deliverers = build_deliverers(self._context, reserved, handlers or {}, normalizers or {})
        self.deliverers.add(delivery.deliverer)
        self._files: FileWatch = NoWatch()
        self._monitor: LoopMonitor | None = None
        self._owner: Owner | None = None
        self._fleet: FleetWatch | None = None
        self._publisher: Publisher | None = None
        self._normalizers = normalizers or {}
        self.reload: ConfigReload | None = None

    async def start(self) -> None:
        """Start the engine and all duties, so that pending deliveries resume before any surface is open.

        Raises `StoreBusy` if the store cannot be reached; `start` may then be called again.
        """
        context, store = self._context, self.store
        if self._owner is None:
            self._owner = await store.owners.register()
        context.system_events.by = self._owner.acting("engine")
        sweep = await store_contracts(context, self._registered, self._owner)
        await store.deliveries.record_served(sorted(self.deliverers.served()))
        await register_sinks(context)
        await context.registry.refresh()
        if any(queue.kind == "https" for queue in await store.contracts.queues()):
            await self.deliverers.webhooks.start()  # its imports are slow once the event loop is busy
        self.loop = Loop(context.chance)
        self._files = open_file_watch()
        self.engine = add_engine(self.loop, context, self._owner, self.deliverers)
        self._monitor = LoopMonitor(self.engine.busy, self._describe_task)
        self._monitor.start()
        add_duties(self.loop, self._files, context, self._owner, self.engine, self.deliverers, sweep)
        self._publisher = add_publisher(self.loop, context, self._owner)
        self._agents.add_to(self.loop, self._files)
        self._add_reload(sweep, self._owner)
        self.live = LiveViews(store, event_json)
        self.live.wake = self.loop.add(self.live, LIVE_POLL_S)
        store.on_change(self._wake_for)
        store.on_failure(self.loop.fail)
        self.operations = self._build_operations(self._owner, sweep)
        if self.config.fleet:
            self._fleet = FleetWatch(self.operations.fleet.show, context.system_events)
            self.loop.add(self._fleet, FLEET_POLL_S)

    def _add_reload(self, sweep: ContractSweep, owner: Owner) -> None:
        """Inside an application (without a home) the settings are those of its start."""
        context, home = self._context, self._context.home
        if home is None:
            return
        self.reload = ConfigReload(home.config, self.config, context, self.deliverers, self._normalizers, sweep, owner)
        poll_s = WATCHED_POLL_S if self.reload.watch(self._files) else POLL_S
        self.reload.wake = self.loop.add(self.reload, poll_s)

    def _build_operations(self, owner: Owner, contract_sweep: ContractSweep) -> Operations:
        context, agents = self._context, self._agents
        return Operations(
            OperationsContext(
                store=self.store,
                owner=owner,
                guard=context.guard,
                policies=self.config.policies,
                retention=self.config.retention,
                clock=context.clock,
                chance=context.chance,
                health=self.loop.health,
                spooled=agents.spooled,
                served=self.deliverers.served,
                warnings=lambda: [
                    *filter(None, [contract_sweep.warning]),
                    *([] if self.reload is None else self.reload.warnings),
                    *agents.warnings(),
                    *([] if self._fleet is None else self._fleet.warnings),
                ],
                hooks=agents.hook_counts,
                faults=context.registry.faults,
                sinks=self._sink_statistics,
                archive_folder=self.config.archive_folder,
                signed_heads=None if context.home is None else SignedHeads(context.home.receipts),
                replay_to={worker.config.name: worker.replay for worker in self._workers()},
                live=self.live,
                counts=context.counts,
                fleet=self.config.fleet,
                tracing=context.tracing,
            )
        )

    def _sink_statistics(self) -> dict[str, SinkStatistics]:
        return {worker.reader: worker.statistics for worker in self._workers()}

    def _workers(self) -> Sequence[SinkWorker]:
        return () if self._publisher is None else self._publisher.workers

    async def stop(self, grace_s: float | None = None) -> list[Claim]:
        """Start nothing new, let running deliveries finish for `grace_s`, settle them and close the store.

        Returns the deliveries that could not be stopped; they run until the process ends. The store then stays open:
        the lock that shows this process to be alive also keeps others from running the same deliveries.
        """
        self._files.close()
        await self.loop.stop([name for name in self.loop.health() if name not in ("engine", "renewal", "deadlines")])
        if self._publisher is not None:
            await self._publisher.close()
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
        if self._publisher is not None:
            self._publisher.cancel()
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

    def _wake_for(self, topic: str) -> None:
        """Wake the duties that may have work after a commit of this process."""
        if topic == "events":
            self.loop.wake("router")
            self.live.notice()
        elif topic == "deliveries":
            self.loop.wake("engine")
        elif topic == "lagging":
            self.loop.wake("publisher")
        else:
            self.loop.wake("router", "sweeper", "registry", "contracts")

"""Reads the configuration file again when it changes or a SIGHUP comes.

Contracts, inbound sources and `egress.allow` apply at once. A file with a mistake changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.config.changes import compare, in_force
from holdfast.config.config import Config, build_config
from holdfast.config.settings_file import read_settings
from holdfast.config.subscriptions import adopt, read_subscriptions
from holdfast.daemon.context import RuntimeContext
from holdfast.daemon.deliverers import Deliverers, inbound_handlers
from holdfast.domain.errors import BadConfig
from holdfast.domain.json_value import KnownJson
from holdfast.file_watch import FileWatch
from holdfast.ingress.webhook import InboundSource
from holdfast.ingress.webhook.platforms.platform import Normalizer
from holdfast.net.guard import Guard
from holdfast.operations.duties.contract_sweep import ContractSweep
from holdfast.ports import in_thread
from holdfast.store.roles.owners import Owner

POLL_S, WATCHED_POLL_S = 2.0, 60.0
START_S = 3.0
"""The first look, which finds changes since the start, waits until the start is over."""
STABLE_S = 0.1
"""How long a file must stay as it is before it is read: an editor may write it in several steps."""

log = logging.getLogger("holdfast.config")


class Stamp(NamedTuple):
    """By which a change of a file is noticed without reading it."""

    inode: int
    bytes: int
    changed_ns: int


class ConfigReload:
    """A duty. `ask` makes it read the file although it seems unchanged. `show_inbound` gets new inbound sources."""

    name = "configuration"

    def __init__(
        self,
        path: Path,
        config: Config,
        context: RuntimeContext,
        deliverers: Deliverers,
        normalizers: Mapping[str, Normalizer],
        sweep: ContractSweep,
        owner: Owner,
    ) -> None:
        self._path, self._context, self._deliverers = path, context, deliverers
        self._normalizers, self._sweep, self._owner = normalizers, sweep, owner
        self._policies, self._settings = config.policies, config.settings
        self._read: Stamp | None = None
        self._latest = self._stamp()
        self._asked = self._started = False
        self._restart: tuple[str, ...] = ()
        self._fault: str | None = None
        self.wake: Callable[[], None] = lambda: None
        self.show_inbound: Callable[[Sequence[InboundSource]], None] = lambda sources: None

    def watch(self, files: FileWatch) -> bool:
        """Watch the file's folder. False: it has to be polled."""
        return self._path.parent.is_dir() and files.watch(
            self._path.parent, self._path.name.__eq__, lambda: self.wake()
        )

    def ask(self) -> None:
        """Read the file now, whether or not it has changed."""
        self._asked = True
        self.wake()

    @property
    def warnings(self) -> list[str]:
        """For `status`: why the file in force is not the one that is written."""
        restart = f"settings that apply only after a restart: {', '.join(self._restart)}" if self._restart else None
        return [text for text in (self._fault, restart) if text is not None]

    def _stamp(self) -> Stamp | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return Stamp(found.st_ino, found.st_size, found.st_mtime_ns)

    async def tick(self) -> float | None:
        if not self._started:
            self._started = True
            return START_S
        before, self._latest = self._latest, self._stamp()
        if self._latest != before:
            return STABLE_S
        if self._latest == self._read and not self._asked:
            return None
        asked, self._asked = self._asked, False
        if self._latest is None:
            self._note_missing(asked)
        else:
            await self._reload(asked)
        self._read = self._latest
        return None

    def _note_missing(self, asked: bool) -> None:
        """A missing file does not remove its contracts: an editor may be writing it, or a disk be unmounted."""
        if asked or self._read is not None:
            log.warning("%s does not exist; the settings in force stay until a restart", self._path)

    async def _reload(self, asked: bool) -> None:
        try:
            settings = await in_thread("files", partial(read_settings, self._path))
            config = await in_thread("files", partial(build_config, settings))
            changes = compare(self._settings, settings)
            handlers = inbound_handlers(config.inbound, self._normalizers, required=True)
            self._check(config)
        except BadConfig as error:
            self._fault = f"the configuration was not reloaded: {error.message}; the settings in force stay"
            log.error("%s", self._fault)
            return
        if changes.applied:
            await self._apply(config, settings, handlers)
            log.info("configuration reloaded: %s", "; ".join(changes.applied))
        elif asked or self._fault is not None:
            log.info("configuration reloaded: nothing that applies at once has changed")
        self._fault = None
        if changes.restart and changes.restart != self._restart:
            log.warning("these settings change only after a restart: %s", ", ".join(changes.restart))
        self._restart = changes.restart

    def _check(self, config: Config) -> None:
        """New contracts are checked with the policies in force: others apply only after a restart."""
        try:
            read_subscriptions(config.subscriptions, self._policies, now_ms=0, guard=Guard(config.egress_allow))
        except BadConfig as error:
            raise BadConfig(f"{error.message} (changed policies need a restart)") from None

    async def _apply(self, config: Config, settings: KnownJson, handlers: Mapping[str, Callable[..., object]]) -> None:
        context = self._context
        for name, function in handlers.items():
            self._deliverers.handlers.add(name, function)
        await context.store.deliveries.record_served(sorted(self._deliverers.served()))
        context.guard.allow(config.egress_allow)
        by = self._owner.acting("configuration")
        now_ms = context.clock.now_ms()
        self._sweep.digest = await adopt(context.store.contracts, config.subscriptions, self._policies, now_ms, by=by)
        self._settings = in_force(self._settings, settings)
        self.show_inbound(config.inbound)

"""The parts of the runtime that serve agent hooks: session handler, spool import and transcript follower."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from holdfast.agents.hooks.decoder import HookDecoder
from holdfast.agents.hooks.hook import Hook
from holdfast.agents.install.idle_hooks import IdleHooks
from holdfast.agents.messages.message_handler import MessageHandler
from holdfast.agents.messages.pane_facts import read_pane_facts
from holdfast.agents.messages.resolve import Resolver
from holdfast.agents.receiver.fallback_folders import count_waiting, recent_failures
from holdfast.agents.receiver.spool_duty import SpoolDuty
from holdfast.agents.sessions.consumer import SessionConsumer
from holdfast.agents.sessions.prompted_message import PromptedMessages
from holdfast.agents.sessions.rebuild import SessionRebuild
from holdfast.agents.transcripts.follower import Follower, FollowSettings, Start
from holdfast.agents.transcripts.reader import read_latest
from holdfast.agents.transcripts.search import find_transcript
from holdfast.daemon.context import RuntimeContext
from holdfast.daemon.loop import Loop
from holdfast.daemon.session_delivery import HOST, SessionDelivery
from holdfast.domain.delivery import Outcome
from holdfast.domain.event import Event
from holdfast.domain.json_value import JsonObject
from holdfast.domain.session import STREAM_PREFIX
from holdfast.file_watch import FileWatch
from holdfast.ingress.importer import SpoolImport
from holdfast.ingress.lateness import LateRecords
from holdfast.ports import Threads


class AgentDuties:
    """Without a home (inside an application) there is no spool and no transcript, only the session handler."""

    def __init__(self, context: RuntimeContext, delivery: SessionDelivery) -> None:
        self._delivery = delivery
        self._store, self._config, self._home, self._clock = context.store, context.config, context.home, context.clock
        self._sessions = SessionConsumer(
            context.store.sessions,
            read_latest,
            find_transcript,
            self._pane_facts,
            PromptedMessages(context.store),
            SessionRebuild(context.store, context.config.archive_folder).handle,
        )
        self._messages = MessageHandler(
            context.store.events,
            context.store.gates,
            Resolver(context.store.sessions),
            context.registry.contract,
            context.clock,
            context.chance,
        )
        self._threads, self._counts = Threads("transcripts"), context.counts
        self._lateness = LateRecords()
        self._import: SpoolImport | None = None
        self._follower: Follower | None = None
        self._idle_hooks = None if context.home is None else IdleHooks(context.home, context.clock)

    def handlers(self) -> dict[str, Callable[..., object]]:
        """The handlers of these duties, by name. An application cannot use these names."""
        return {"sessions": self.handle, "messages": self._messages.handle}

    def add_to(self, loop: Loop, files: FileWatch) -> None:
        self._delivery.add_to(loop)
        if self._home is None:
            return
        self._import = self._importer(self._home.spool)
        spool_duty = SpoolDuty(self._home.root, self._import, self._importer)
        spool_duty.watch(files, loop.add(spool_duty, poll_s=60.0))
        if self._config.transcripts != "off":
            settings = FollowSettings(start=cast(Start, self._config.transcripts))
            self._follower = Follower(self._store, self._clock, self._threads, settings=settings)
            self._follower.wake = loop.add(self._follower, poll_s=5.0)

    def close(self) -> None:
        self._threads.close()

    async def handle(self, event: Event) -> Outcome:
        """The handler `sessions`: update the session of a hook event, and check its transcript for new output."""
        outcome = await self._sessions.handle(event)
        if self._follower is not None:
            self._follower.read_now(event.stream.removeprefix(STREAM_PREFIX))
        self._delivery.on_hook(event)
        return outcome

    async def _pane_facts(self, hook: Hook) -> JsonObject:
        return await read_pane_facts(hook, self._clock.now_ms(), HOST)

    def warnings(self) -> list[str]:
        if self._home is None or self._idle_hooks is None:
            return []
        return [*recent_failures(self._home.root, self._clock.now_ms()), *self._idle_hooks.warnings()]

    def spooled(self) -> int:
        return 0 if self._home is None else count_waiting(self._home.root)

    def hook_counts(self) -> dict[str, int]:
        """Hook events that were read but not appended, since this process started."""
        spool = self._import
        return {} if spool is None else {"unlisted": spool.unlisted, "repeated": spool.repeated}

    def _importer(self, folder: Path) -> SpoolImport:
        decoders = [HookDecoder(self._config.session_events, HOST)]
        return SpoolImport(folder, self._store.events, self._clock, decoders, self._lateness, self._counts)

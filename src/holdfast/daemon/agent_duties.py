"""The parts of the runtime that serve agent hooks: session handler, spool import and transcript follower."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from holdfast.agents.hooks.decoder import HookDecoder
from holdfast.agents.receiver.fallback_folders import count_waiting, recent_failures
from holdfast.agents.receiver.spool_duty import SpoolDuty
from holdfast.agents.sessions.consumer import SessionConsumer
from holdfast.agents.transcripts.follower import Follower, FollowSettings, Start
from holdfast.agents.transcripts.reader import read_latest
from holdfast.agents.transcripts.search import find_transcript
from holdfast.config.config import Config
from holdfast.daemon.loop import Loop
from holdfast.domain.delivery import Outcome
from holdfast.domain.event import Event
from holdfast.domain.session import STREAM_PREFIX
from holdfast.file_watch import FileWatch
from holdfast.home import Home
from holdfast.ingress.importer import SpoolImport
from holdfast.ingress.lateness import Lateness
from holdfast.ports import Clock, Threads
from holdfast.store.roles.store import Store


class AgentDuties:
    """Without a home (inside an application) there is no spool and no transcript, only the session handler."""

    def __init__(self, store: Store, config: Config, home: Home | None, clock: Clock) -> None:
        self._store, self._config, self._home, self._clock = store, config, home, clock
        self._sessions = SessionConsumer(store.sessions, read_latest, find_transcript)
        self._threads = Threads("transcripts")
        self._lateness = Lateness()
        self._import: SpoolImport | None = None
        self._follower: Follower | None = None

    def add_to(self, loop: Loop, files: FileWatch) -> None:
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
            self._follower.nudge(event.stream.removeprefix(STREAM_PREFIX))
        return outcome

    def warnings(self) -> list[str]:
        return [] if self._home is None else recent_failures(self._home.root, self._clock.now_ms())

    def spooled(self) -> int:
        return 0 if self._home is None else count_waiting(self._home.root)

    def hook_counts(self) -> dict[str, int]:
        """Hook events that were read but not appended, since this process started."""
        spool = self._import
        return {} if spool is None else {"unlisted": spool.unlisted, "repeated": spool.repeated}

    def _importer(self, folder: Path) -> SpoolImport:
        decoders = [HookDecoder(self._config.session_events)]
        return SpoolImport(folder, self._store.events, self._clock, decoders, self._lateness)

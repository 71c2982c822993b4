"""Delivery of messages into agent sessions: which sessions this process serves, and by which adapters."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from holdfast.agents.messages.adapter import Adapter
from holdfast.agents.messages.adoption import Adoption, find_command
from holdfast.agents.messages.deliverer import Adopt, SessionDeliverer
from holdfast.agents.messages.handler_adapter import HandlerAdapter, SessionHandler
from holdfast.agents.messages.message_files import MessageFiles
from holdfast.agents.messages.native_queue import NativeQueue
from holdfast.agents.messages.own_sessions import OwnSessions
from holdfast.agents.messages.queue_adapter import QueueAdapter
from holdfast.agents.messages.terminal import Terminal
from holdfast.agents.messages.tmux_adapter import TmuxAdapter
from holdfast.agents.registry import find_agent
from holdfast.daemon.context import RuntimeContext
from holdfast.daemon.loop import Loop
from holdfast.domain.event import Event
from holdfast.domain.session import STREAM_PREFIX, Session

HOST = platform.node()

_EVIDENCE = ("hook.user_prompt_submit",)
_CHANGES = ("hook.session_start", "hook.agent_stop", "hook.notification", "hook.error", "hook.session_end")
AFTER_CHANGE_S = 0.1  # the session's row is written when the handler's delivery is settled


class SessionDelivery:
    """The deliverer of `session:` addresses, and the hooks that wake it.

    The home's own SQLite store is served by default. Any other one is served only if the configuration says so,
    because everyone who may publish there could type into the terminals of this user.
    """

    def __init__(self, context: RuntimeContext, handlers: Mapping[str, SessionHandler]) -> None:
        self._handlers = handlers
        self._terminals = context.home is not None and (_is_homes_own(context) or context.config.deliver_sessions)
        self._own: OwnSessions | None = None
        if not (context.home is not None and _is_homes_own(context)):
            self._own = OwnSessions(context.store.sessions, self._is_own)
        adapters: list[Adapter] = [HandlerAdapter(handlers)]
        if self._terminals:
            adapters += [QueueAdapter(queue_of), TmuxAdapter(terminal_of, context.clock)]
        folder = None if context.home is None else context.home.root / "files"
        files = None if folder is None else MessageFiles(context.store.blobs, folder, context.config.transcriber)
        self.deliverer = SessionDeliverer(
            context.store, adapters, context.clock, HOST, self._serves, self._adoption(context), files=files
        )

    def _adoption(self, context: RuntimeContext) -> Adopt | None:
        if context.home is None or not self._terminals or context.config.adopt_sessions != "ended":
            return None
        return Adoption(context.store.sessions, resume_of, context.home.root, context.clock).adopt

    @property
    def at_work(self) -> bool:
        return self._terminals or bool(self._handlers)

    def add_to(self, loop: Loop) -> None:
        if self._own is not None and self.at_work:
            loop.add(self._own, poll_s=5.0)

    def on_hook(self, event: Event) -> None:
        """Look at once for the confirmation of a message, or try the one that waits for this session."""
        if not self.at_work or event.type not in _EVIDENCE + _CHANGES:
            return
        session_id = event.stream.removeprefix(STREAM_PREFIX)
        started = event.type == "hook.session_start" and isinstance(event.payload, dict)
        if self._own is not None and self._terminals and started and event.payload.get("host") == HOST:
            self._own.add(event.stream)
        delay_s = 0.0 if event.type in _EVIDENCE else AFTER_CHANGE_S
        self.deliverer.on_prompt(session_id)
        for address in self.deliverer.lanes_waiting_for(session_id):
            self.deliverer.make_due(address, delay_s)

    def _serves(self) -> frozenset[str] | None:
        if not self.at_work:
            return frozenset()
        return None if self._own is None else self._own.addresses()

    def _is_own(self, session: Session) -> bool:
        return session.agent in self._handlers or (self._terminals and session.host == HOST)


def terminal_of(agent: str) -> Terminal | None:
    found = find_agent(agent)
    return None if found is None else found.terminal


def queue_of(agent: str) -> NativeQueue | None:
    found = find_agent(agent)
    return None if found is None else found.queue


def resume_of(session: Session) -> list[str] | None:
    found = find_agent(session.agent)
    return None if found is None or found.resume is None else find_command(found.resume(session.native_id))


def _is_homes_own(context: RuntimeContext) -> bool:
    return context.home is not None and context.store.url == f"sqlite:///{context.home.database}"

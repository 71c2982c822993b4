"""The session consumer: the handler `sessions`, which updates an agent session after each of its hook events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from holdfast.agents.hooks.hook import Hook, read_hook
from holdfast.agents.registry import find_agent
from holdfast.agents.sessions.lifecycle import CONTINUATION_SOURCES, advance, find_predecessor
from holdfast.agents.transcripts.latest_texts import LatestTexts
from holdfast.domain.delivery import Delivered, Outcome
from holdfast.domain.errors import BadInput, Reject
from holdfast.domain.event import Event
from holdfast.domain.session import Session
from holdfast.ports import in_thread
from holdfast.store.roles.sessions import SessionFilter, Sessions

PREDECESSORS_MAX = 200
"""How many recent sessions are searched for the one that a new session continues."""

ReadLatest = Callable[[str, str], LatestTexts | None]
FindTranscript = Callable[[str, str], str | None]

log = logging.getLogger("holdfast.sessions")


def no_transcript(agent: str, name: str) -> None:
    """Stands in for `read_latest` and `find_transcript` when transcripts are off."""


def read_agent_hook(event: Event) -> Hook:
    """The hook in a stored event, completed with what is known about its CLI."""
    hook = read_hook(event)
    agent = find_agent(hook.agent)
    return replace(hook, pane_is_shared=True) if agent is not None and agent.pane_is_shared else hook


class SessionConsumer:
    """Updates the session row and makes domain events, all as effects of the delivery's settle transaction.

    The consumer writes nothing itself, and the lane of a session handles one event at a time. So an event that is
    delivered again after a crash finds the row unchanged and has the same result.
    """

    def __init__(
        self,
        sessions: Sessions,
        read_latest: ReadLatest = no_transcript,
        find_transcript: FindTranscript = no_transcript,
    ) -> None:
        self._sessions, self._read_latest, self._find_transcript = sessions, read_latest, find_transcript

    async def handle(self, event: Event) -> Outcome:
        """Apply one hook event. An event that cannot be decoded ends as dead with the reason: a retry cannot help."""
        try:
            hook = read_agent_hook(event)
        except BadInput as error:
            raise Reject(error.message) from None
        session = await self._sessions.get(hook.session_id)
        if session is None and hook.event_type == "raw" and hook.injected:
            return Delivered()  # an internal request of the CLI, not a session
        predecessor = await self._predecessor(hook) if session is None else None
        hook, latest = await self._transcript(session, hook)
        try:
            change, events = advance(session, hook, latest=latest, predecessor=predecessor)
        except Exception as error:
            log.exception("cannot process hook event %s", event.id)
            raise Reject(f"cannot process the hook event: {type(error).__name__}: {error}") from error
        return Delivered(effects=[change, *events])

    async def _predecessor(self, hook: Hook) -> Session | None:
        if hook.event_type != "session_start" or hook.source not in CONTINUATION_SOURCES:
            return None
        page = await self._sessions.find(SessionFilter(agent=hook.agent), None, PREDECESSORS_MAX)
        return find_predecessor(hook, page.items)

    async def _transcript(self, session: Session | None, hook: Hook) -> tuple[Hook, LatestTexts | None]:
        """At the end of a turn: the latest texts of the transcript, and its path if the hook did not name it."""
        if hook.event_type not in ("agent_stop", "error", "session_end"):
            return hook, None
        path = hook.transcript or (session.transcript if session is not None else None)
        try:
            if path is None:
                path = await in_thread("files", partial(self._find_transcript, hook.agent, hook.native_id))
                hook = hook if path is None else replace(hook, transcript=path)
            if path is None:
                return hook, None
            return hook, await in_thread("files", partial(self._read_latest, hook.agent, path))
        except Exception as error:  # the event is processed without the transcript's texts
            log.warning("cannot read the transcript of session %s: %s", hook.session_id, error)
            return hook, None

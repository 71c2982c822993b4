"""The session consumer: the handler that brings an agent session up to date after each of its hook events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from holdfast.agents.hooks.hook import Hook, read_hook
from holdfast.agents.sessions.lifecycle import CONTINUING, Words, advance, continued
from holdfast.domain.delivery import Delivered, Outcome
from holdfast.domain.errors import BadInput, Reject
from holdfast.domain.event import Event
from holdfast.domain.session import Session
from holdfast.ports import in_thread
from holdfast.store.roles.sessions import SessionFilter, Sessions

LOOK_BACK = 200

ReadLast = Callable[[str, str], Words | None]
FindTranscript = Callable[[str, str], str | None]

log = logging.getLogger("holdfast.sessions")


def no_transcript(agent: str, name: str) -> None:
    """What stands in where nobody finds or reads transcripts."""


class SessionConsumer:
    """The handler `sessions`: brings the read model up to date and tells what happened, all as effects of its settle.

    It writes nothing itself, and the lane of a session holds one event at a time. So an event that is delivered
    again after a crash finds the row as it was before it, and comes to the same end.
    """

    def __init__(
        self,
        sessions: Sessions,
        read_last: ReadLast = no_transcript,
        find_transcript: FindTranscript = no_transcript,
    ) -> None:
        self._sessions, self._read_last, self._find_transcript = sessions, read_last, find_transcript

    async def handle(self, event: Event) -> Outcome:
        """An event that cannot be understood now will not be understood later: it ends as dead, and says why."""
        try:
            hook = read_hook(event)
        except BadInput as error:
            raise Reject(error.message) from None
        session = await self._sessions.get(hook.session_id)
        if session is None and hook.event_type == "raw" and hook.injected:
            return Delivered()  # an errand of the CLI's own, not a session
        before = await self._before(hook) if session is None else None
        hook, last = await self._transcript(session, hook)
        try:
            change, events = advance(session, hook, last=last, before=before)
        except Exception as error:
            log.exception("the hook event %s cannot be understood", event.id)
            raise Reject(f"the hook event cannot be understood: {type(error).__name__}: {error}") from error
        return Delivered(effects=[change, *events])

    async def _before(self, hook: Hook) -> Session | None:
        if hook.event_type != "session_start" or hook.source not in CONTINUING:
            return None
        page = await self._sessions.find(SessionFilter(agent=hook.agent), None, LOOK_BACK)
        return continued(hook, page.items)

    async def _transcript(self, session: Session | None, hook: Hook) -> tuple[Hook, Words | None]:
        """At the end of a turn, what the transcript says; and where it is, if the CLI did not say."""
        if hook.event_type not in ("agent_stop", "error", "session_end"):
            return hook, None
        path = hook.transcript or (session.transcript if session is not None else None)
        try:
            if path is None:
                path = await in_thread("files", partial(self._find_transcript, hook.agent, hook.native_id))
                hook = hook if path is None else replace(hook, transcript=path)
            if path is None:
                return hook, None
            return hook, await in_thread("files", partial(self._read_last, hook.agent, path))
        except Exception as error:  # the event counts, with or without what its transcript could add
            log.warning("the transcript of session %s cannot be read: %s", hook.session_id, error)
            return hook, None

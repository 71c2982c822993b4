"""Sessions of agents: the consumer of their hooks, and the verbs of those who look at them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from holdfast.domain.delivery import Delivered, Outcome
from holdfast.domain.errors import BadInput, NotFound, Reject
from holdfast.domain.event import Event, iso_time, show
from holdfast.domain.hook import CLOSED, Hook, ending, read_hook
from holdfast.domain.lifecycle import CONTINUING, Words, advance, continued
from holdfast.domain.session import Session, SessionState
from holdfast.operations.shapes import LIMIT_DEFAULT, check_limit, fitting, session_shape
from holdfast.ports import Clock, in_thread
from holdfast.store.base import SessionFilter, Sessions, Store

LOOK_BACK = 200
CLOSE_WAIT_S = 5.0
CLOSE_LOOK_S = 0.02
SAME_MAX = 10

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


class SessionVerbs:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def find(
        self,
        *,
        agent: str | None = None,
        state: str | None = None,
        native_id: str | None = None,
        cwd: str | None = None,
        after: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> dict[str, Any]:
        """The one that changed last first."""
        if state is not None and state not in set(SessionState):
            raise BadInput(f"state {show(state)} is unknown; use one of {', '.join(SessionState)}")
        wanted = SessionFilter(agent, state, native_id, cwd)
        page = await self._store.sessions.find(wanted, _check_cursor(after), check_limit(limit))
        items = fitting(session_shape(session) for session in page.items)
        if len(items) == len(page.items):
            return {"items": items, "next": page.next}
        last = page.items[len(items) - 1]
        return {"items": items, "next": f"{last.updated_at_ms}.{last.id}"}

    async def show(self, id: str) -> dict[str, Any]:
        """By our id or by the CLI's own, with everything that is known of it."""
        session = await self._get(id)
        return {**session_shape(session), "facts": dict(session.facts)}

    async def close(self, id: str) -> dict[str, Any]:
        """Close a session for good: in its lane, behind what its hooks told before. It is over when this returns,
        unless its lane is held up; then it will be, and the answer shows the state it is still in."""
        session = await self._get(id)
        if session.state is not SessionState.CLOSED:
            at_ms = self._clock.now_ms()
            await self._store.events.append([ending(session, CLOSED, iso_time(at_ms))])
            session = await self._until_closed(session)
        return session_shape(session)

    async def _until_closed(self, session: Session) -> Session:
        for _ in range(round(CLOSE_WAIT_S / CLOSE_LOOK_S)):
            session = await self._store.sessions.get(session.id) or session
            if session.state is SessionState.CLOSED:
                break
            await asyncio.sleep(CLOSE_LOOK_S)
        return session

    async def _get(self, id: str) -> Session:
        session = await self._store.sessions.get(id)
        if session is not None:
            return session
        found = (await self._store.sessions.find(SessionFilter(native_id=id), None, SAME_MAX)).items
        if not found:
            raise NotFound(f"there is no session {show(id)}, by our id or by the agent's own")
        if len(found) > 1:
            raise BadInput(f"{show(id)} names several sessions: {', '.join(one.id for one in found)}; choose one")
        return found[0]


def _check_cursor(after: str | None) -> str | None:
    if after is None:
        return None
    time, dot, _ = after.partition(".")
    if not dot or not (time.isascii() and time.isdigit() and len(time) <= 18):
        raise BadInput(f"after={show(after)} is not a cursor: pass what `next` said on the page before")
    return after

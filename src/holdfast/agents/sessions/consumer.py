"""The session consumer: the handler `sessions`, which updates an agent session after each of its hook events."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from holdfast.agents.hooks.hook import Hook
from holdfast.agents.registry import transcript_format
from holdfast.agents.sessions.agent_hook import read_agent_hook
from holdfast.agents.sessions.lifecycle import CONTINUATION_SOURCES, advance, find_predecessor
from holdfast.agents.sessions.message_facts import ANSWERING, about_message, facts_of_signal
from holdfast.agents.sessions.operator_events import TYPES as OPERATOR_TYPES
from holdfast.agents.sessions.operator_events import moved_event, operator_change
from holdfast.agents.sessions.prompted_message import PromptedMessages
from holdfast.agents.sessions.rebuild import REBUILD
from holdfast.agents.sessions.session_events import Predecessor
from holdfast.agents.transcripts.latest_texts import LatestTexts
from holdfast.domain.delivery import Delivered, Outcome
from holdfast.domain.errors import BadInput, Reject
from holdfast.domain.event import Event, NewEvent
from holdfast.domain.json_value import JsonObject, text_in
from holdfast.domain.message import SOURCE as MESSAGE_SOURCE
from holdfast.domain.session import STREAM_PREFIX, Session, SessionChange
from holdfast.domain.text import short_repr
from holdfast.ports import in_thread
from holdfast.store.roles.sessions import SessionFilter, Sessions

PREDECESSORS_MAX = 200
"""How many recent sessions are searched for the one that a new session continues."""
LATE_LOOKS, LATE_LOOK_S = 20, 0.1
"""How often and how soon a transcript is read again if the answer of the turn is not in it yet."""

ReadLatest = Callable[[str, str], LatestTexts | None]
FindTranscript = Callable[[str, str], str | None]
PaneFacts = Callable[[Hook], Awaitable[JsonObject]]
Rebuild = Callable[[Event], Awaitable[Outcome]]

log = logging.getLogger("holdfast.sessions")


def no_transcript(agent: str, name: str) -> None:
    """Stands in for `read_latest` and `find_transcript` when transcripts are off."""


async def no_pane_facts(hook: Hook) -> JsonObject:
    """Stands in for `pane_facts` where no terminal can be reached."""
    return {}


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
        pane_facts: PaneFacts = no_pane_facts,
        messages: PromptedMessages | None = None,
        rebuild: Rebuild | None = None,
    ) -> None:
        self._sessions, self._read_latest, self._find_transcript = sessions, read_latest, find_transcript
        self._pane_facts, self._messages, self._rebuild = pane_facts, messages, rebuild

    async def handle(self, event: Event) -> Outcome:
        """Apply one event. An event that cannot be decoded ends as dead with the reason: a retry cannot help."""
        if event.source == MESSAGE_SOURCE:
            return await self._signal(event)
        if event.type == REBUILD and self._rebuild is not None:
            return await self._rebuild(event)
        if event.type in OPERATOR_TYPES:
            return await self._operator(event)
        return await self._hook(event)

    async def _hook(self, event: Event) -> Outcome:
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
        if _shows_pane(session, hook):
            change = replace(change, facts={**change.facts, **await self._pane_facts(hook)})
        if hook.event_type == "user_prompt_submit" and session is not None and not hook.late and not hook.injected:
            change = replace(change, facts={**change.facts, **await self._prompt_facts(session, hook)})
        return Delivered(effects=[change, *events, *await self._moved(change)])

    async def _prompt_facts(self, session: Session, hook: Hook) -> JsonObject:
        """The message that the agent answers from now on; None removes it, for a person's own prompt."""
        if self._messages is None or not hook.prompt:
            return {ANSWERING: None}
        found = await self._messages.find(session, hook.prompt)
        return {ANSWERING: None if found is None else about_message(*found)}

    async def _signal(self, event: Event) -> Outcome:
        """What became of a message: keep the last one on the session's row."""
        payload = event.payload if isinstance(event.payload, dict) else {}
        session, id = await self._sessions.get(event.stream.removeprefix(STREAM_PREFIX)), text_in(payload, "message_id")
        message = None if self._messages is None or id is None else await self._messages.read(id)
        if session is None or id is None or message is None or session.facts.get("last_message_id") == id:
            return Delivered()  # once for each message
        facts = facts_of_signal(event, id, message)
        return Delivered(effects=[SessionChange(session.id, session.agent, session.native_id, facts=facts)])

    async def _operator(self, event: Event) -> Outcome:
        session = await self._sessions.get(event.stream.removeprefix(STREAM_PREFIX))
        if session is None:
            raise Reject(f"there is no session {short_repr(event.stream)}")
        try:
            change = operator_change(session, event)
        except BadInput as error:
            raise Reject(error.message) from None
        return Delivered(effects=[change, *await self._moved(change)])

    async def _moved(self, change: SessionChange) -> list[NewEvent]:
        """For each chat that is bound from now on: an event about it on the stream of the session that had it."""
        holders = [(chat, await self._sessions.bound_to(chat)) for chat in change.bind]
        return [moved_event(holder, chat, change.id) for chat, holder in holders if holder not in (None, change.id)]

    async def _predecessor(self, hook: Hook) -> Predecessor | None:
        if hook.event_type != "session_start" or hook.source not in CONTINUATION_SOURCES:
            return None
        page = await self._sessions.find(SessionFilter(agent=hook.agent), None, PREDECESSORS_MAX)
        found = find_predecessor(hook, page.items)
        return None if found is None else Predecessor(found, tuple(await self._sessions.bindings(found.id)))

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
            return hook, await self._latest_texts(hook, path)
        except FileNotFoundError:
            log.debug("session %s has no transcript at %s", hook.session_id, path)  # the follower reports it once
            return hook, None
        except Exception as error:  # the event is processed without the transcript's texts
            log.warning("cannot read the transcript of session %s: %s", hook.session_id, error)
            return hook, None

    async def _latest_texts(self, hook: Hook, path: str) -> LatestTexts | None:
        """The latest texts; of a CLI that writes the answer late, once it is there, or after a moment."""
        format = transcript_format(hook.agent)
        is_late = format is not None and format.is_late and hook.event_type == "agent_stop" and hook.answer is None
        for _ in range(LATE_LOOKS if is_late else 0):
            with contextlib.suppress(FileNotFoundError):
                latest = await in_thread("files", partial(self._read_latest, hook.agent, path))
                if latest is not None and latest.answer is not None and latest.is_answered:
                    return latest
            await asyncio.sleep(LATE_LOOK_S)
        return await in_thread("files", partial(self._read_latest, hook.agent, path))


def _shows_pane(session: Session | None, hook: Hook) -> bool:
    """Whether the hook says in which pane its agent runs, and what runs there is not known yet."""
    if hook.pane is None or hook.tmux is None or hook.pane_is_shared or hook.late:
        return False
    if hook.event_type == "session_start" or session is None or session.pane != hook.pane:
        return True
    return hook.event_type == "user_prompt_submit" and session.facts.get("pane_command") is None

"""Rebuilds the row of a session from its events.

A rebuild is an event of the session's own lane, so it waits for the hooks before it, and no other process changes the
row meanwhile. It replaces the row in its settle transaction and says in an event what was different.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdfast.agents.sessions.fold import SessionFold
from holdfast.agents.sessions.operator_events import SOURCE
from holdfast.domain.agent_events import session_event
from holdfast.domain.delivery import Delivered, Outcome
from holdfast.domain.errors import PositionPruned
from holdfast.domain.event import Event, NewEvent, new_event
from holdfast.domain.json_value import JsonObject
from holdfast.domain.lane import SESSIONS
from holdfast.domain.session import COLUMNS, STREAM_PREFIX, Binding, Session, SessionChange
from holdfast.domain.states import State
from holdfast.store.roles.operator import DeliveryFilter
from holdfast.store.roles.page import PAGE_MAX
from holdfast.store.roles.store import Store
from holdfast.streams.replay import read_again

REBUILD = "session.rebuild"
REBUILT = "rebuilt"
PAGE = 500
OBSERVED = ("pane_command", "agent_version")
"""Facts that no event holds: the consumer saw them in the terminal."""


def rebuild_event(session_id: str, actor: str) -> NewEvent:
    """The event that has a session rebuilt; `actor` is who asked for it."""
    return new_event(
        REBUILD,
        {"by": actor},
        source=SOURCE,
        stream=STREAM_PREFIX + session_id,
        properties={"session_id": session_id},
        to=SESSIONS,
    )


class SessionRebuild:
    """`archives`: the folder with events that are no longer stored, if there is one."""

    def __init__(self, store: Store, archives: Path | None) -> None:
        self._store, self._archives = store, archives

    async def handle(self, event: Event) -> Outcome:
        """Replace the row of the event's session, if it differs from what the events before this one say.

        A session whose first events are gone keeps its row. If it has none, it gets what the events that are left say.
        """
        id = event.stream.removeprefix(STREAM_PREFIX)
        row = await self._store.sessions.get(id)
        fold, is_whole = await self._fold(event, row is None)
        if fold.session is None or not (is_whole or row is None):
            return Delivered(effects=[_report(event, id, (), fold.applied, is_whole)])
        session = _complete(fold.session, row)
        bind, unbind = await self._chats(fold, id)
        different = _different(session, row)
        if bind or unbind:
            different = (*different, "chats")
        report = _report(event, id, different, fold.applied, is_whole)
        if not different:
            return Delivered(effects=[report])
        columns = {name: getattr(session, name) for name in COLUMNS}
        change = SessionChange(
            id, session.agent, session.native_id, **columns, bind=bind, unbind=unbind, facts=session.facts,
            rebuilt=fold.times,
        )  # fmt: skip
        return Delivered(effects=[change, report])

    async def _fold(self, request: Event, partly: bool) -> tuple[SessionFold, bool]:
        """What the events say, and whether all of them are there. `partly`: begin with the first that is left."""
        stream, fold = request.stream, SessionFold()
        dead = await self._dead(stream)
        stored = await self._store.events.stream(stream)
        after, head, is_whole = 0, 0 if stored is None else stored.head, True
        while after < head:
            try:
                events = await read_again(self._store, self._archives, stream, after, head, PAGE)
            except PositionPruned:
                is_whole = False
                first = await self._store.events.first_seq(stream)
                if not partly or first is None or first <= after + 1:
                    break
                after = first - 1
                continue
            if not events:
                break
            for event in events:
                fold.add(event, event.seq < request.seq and event.id not in dead)
            after = events[-1].seq
        return fold, is_whole

    async def _dead(self, stream: str) -> set[str]:
        """Events that the lane has not applied, because their delivery is dead."""
        wanted = DeliveryFilter(state=State.DEAD, address=SESSIONS, stream=stream)
        return {row.event_id for row in (await self._store.operator.deliveries(wanted, None, PAGE_MAX)).items}

    async def _chats(self, fold: SessionFold, id: str) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
        """The chats to bind and to unbind."""
        bound = await self._store.sessions.bindings(id)
        return tuple(chat for chat in fold.chats if chat not in bound), tuple(
            chat for chat in bound if chat not in fold.chats
        )


def _complete(session: Session, row: Session | None) -> Session:
    """With what no event holds, from the present row: texts of a transcript, and what was seen in the same pane."""
    if row is None:
        return session
    columns = {name: getattr(row, name) for name in COLUMNS if getattr(session, name) is None}
    if row.pane != session.pane:
        return replace(session, **columns)
    seen = {name: row.facts[name] for name in OBSERVED if name in row.facts}
    return replace(session, **columns, facts={**session.facts, **seen})


def _different(session: Session, row: Session | None) -> tuple[str, ...]:
    """The names of the columns that differ."""
    names = ("agent", "native_id", *COLUMNS, "facts")
    return tuple(name for name in names if row is None or getattr(session, name) != getattr(row, name))


def _report(request: Event, id: str, different: tuple[str, ...], events: int, is_whole: bool) -> NewEvent:
    """`session.rebuilt`: which columns were different, from how many events, and whether all of them were there."""
    by = request.payload.get("by") if isinstance(request.payload, dict) else None
    payload: JsonObject = {"changed": [*different], "events": events, "complete": is_whole, "by": by}
    return session_event(REBUILT, id, payload)

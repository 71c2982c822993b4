"""Operator verbs about agent sessions: list, show, name, bind to a chat, attach to a pane, close.

A session's row changes only in its own lane: each change is an event, and the verb waits until it was applied.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Sequence

from holdfast.agents.hooks.hook import CLOSED, session_end_event
from holdfast.agents.messages.tmux import Pane, Tmux, TmuxError
from holdfast.agents.messages.tmux_adapter import SHELLS
from holdfast.agents.sessions.operator_events import (
    ATTACHED,
    BOUND,
    NAMED,
    UNBOUND,
    check_binding,
    check_pane,
    check_session_name,
    operator_event,
)
from holdfast.agents.sessions.rebuild import rebuild_event
from holdfast.domain.errors import Ambiguous, BadInput, Conflict, NotFound
from holdfast.domain.event import check_name, iso_time
from holdfast.domain.json_value import JsonObject
from holdfast.domain.message import EXPIRED, message_status_event
from holdfast.domain.session import FINISHED_STATES, STREAM_PREFIX, Session, SessionState
from holdfast.domain.states import State
from holdfast.domain.text import short_repr
from holdfast.operations.answers.page import LIMIT_DEFAULT, Page, bad_cursor, check_limit, fit_page, is_number
from holdfast.operations.answers.sessions import (
    RebuiltSessions,
    SessionAnswer,
    SessionWithTimeline,
    session_answer,
    session_with_timeline,
)
from holdfast.operations.timeline import Timeline
from holdfast.ports import Clock
from holdfast.store.roles.operator import DeliveryFilter
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.sessions import SessionFilter
from holdfast.store.roles.store import Store

CLOSE_WAIT_S = 5.0
CLOSE_LOOK_S = 0.02
SAME_MAX = 10
EXPIRE_BATCH = 100
EXPIRE_BATCHES_MAX = 20
REBUILD_MAX = 100
EXPIRED_WHY = "the session was closed"


class SessionVerbs:
    def __init__(self, store: Store, clock: Clock, owner: Owner | None = None) -> None:
        self._store, self._clock, self._owner = store, clock, owner
        self._timeline = Timeline(store)

    async def find(
        self,
        *,
        agent: str | None = None,
        state: str | None = None,
        native_id: str | None = None,
        cwd: str | None = None,
        after: str | None = None,
        limit: int = LIMIT_DEFAULT,
    ) -> Page[SessionAnswer]:
        """Sessions, last changed first."""
        if state is not None and state not in set(SessionState):
            raise BadInput(f"state {short_repr(state)} is unknown; use one of {', '.join(SessionState)}")
        session_filter = SessionFilter(agent, state, native_id, cwd)
        page = await self._store.sessions.find(session_filter, _check_cursor(after), check_limit(limit))
        items = fit_page(session_answer(session) for session in page.items)
        if len(items) == len(page.items):
            return Page(items, page.next)
        last = page.items[len(items) - 1]
        return Page(items, f"{last.updated_at_ms}.{last.id}")

    async def show(self, id: str, limit: int = LIMIT_DEFAULT) -> SessionWithTimeline:
        """One session with its last messages, prompts, tools and answers on one time line, oldest first."""
        session = await self._get(id)
        chats = await self._store.sessions.bindings(session.id)
        entries = await self._timeline.read(session, check_limit(limit))
        return session_with_timeline(session, [f"{origin}:{channel}" for origin, channel in chats], entries)

    async def name(self, id: str, name: str, actor: str = "local") -> SessionAnswer:
        """Give a session a name, by which messages can be sent to it. An empty name removes it."""
        session, name = await self._get(id), check_session_name(name)
        same = (await self._store.sessions.find(SessionFilter(name=name), None, SAME_MAX)).items if name else []
        others = [one.id for one in same if one.id != session.id and one.state not in FINISHED_STATES]
        if others:
            raise Conflict(f"the name {short_repr(name)} belongs to session {others[0]}, which is still open")
        return await self._change(session, NAMED, {"name": name}, actor, lambda row: (row.name or "") == name)

    async def bind(self, id: str, origin: str, channel: str, bound: bool = True, actor: str = "local") -> SessionAnswer:
        """Bind a chat to a session: its messages for the session `auto` go there. `bound` false ends that."""
        session, chat = await self._get(id), check_binding(origin, channel)
        answer = await self._change(session, BOUND if bound else UNBOUND, dict(chat._asdict()), actor)
        for _ in range(round(CLOSE_WAIT_S / CLOSE_LOOK_S)):
            if (await self._store.sessions.bound_to(chat) == session.id) is bound:
                break
            await asyncio.sleep(CLOSE_LOOK_S)
        return answer

    async def attach(self, id: str, pane: str, tmux: str, actor: str = "local") -> SessionAnswer:
        """Say in which tmux pane the agent of a session runs, if its hooks do not. An agent must run there now."""
        session, pane = await self._get(id), check_pane(pane)
        socket = check_name(tmux, "tmux").partition(",")[0]
        try:
            screen = await Tmux(socket).look(Pane(socket, pane))
        except TmuxError as error:
            raise NotFound(f"there is no pane {pane} at {short_repr(socket)}: {error}") from None
        if screen.dead or screen.command in SHELLS or not screen.command:
            raise BadInput(f"no agent runs in pane {pane}, only {screen.command or 'nothing'}; start it there first")
        payload: JsonObject = {
            "pane": pane, "tmux": socket, "tmux_server": screen.server, "pane_command": screen.command,
            "host": platform.node(),
        }  # fmt: skip
        return await self._change(session, ATTACHED, payload, actor, lambda row: row.pane == pane)

    async def close(self, id: str, actor: str = "local") -> SessionAnswer:
        """Close a session, in its lane after the hooks that came before. Messages that still wait for it expire.

        Waits up to `CLOSE_WAIT_S` until it is closed. If its lane is blocked, the answer shows the state it still has.
        """
        session = await self._get(id)
        if session.state is not SessionState.CLOSED:
            at_ms = self._clock.now_ms()
            await self._store.events.append([session_end_event(session, CLOSED, iso_time(at_ms))])
            session = await self._until(session, lambda row: row.state is SessionState.CLOSED)
        if session.state is SessionState.CLOSED:
            await self._expire(session, actor)
        return session_answer(session)

    async def rebuild(
        self,
        *,
        ids: Sequence[str] | None = None,
        all: bool = False,
        after: str | None = None,
        limit: int = REBUILD_MAX,
        actor: str = "local",
    ) -> RebuiltSessions:
        """Rebuild the rows of sessions from their events, each in its own lane: these, or all, page by page.

        Waits a few seconds until they are rebuilt. A session whose first events are gone keeps its row.
        """
        if (ids is None) != all or (ids is not None and not 1 <= len(ids) <= REBUILD_MAX):
            raise BadInput(f"give the ids of 1 to {REBUILD_MAX} sessions, or all: true")
        if not 1 <= limit <= REBUILD_MAX:
            raise BadInput(f"limit must be from 1 to {REBUILD_MAX}, not {limit}")
        found, more = await self._streams(after, limit) if ids is None else (list(ids), None)
        for id in ids or ():
            if await self._store.events.stream(STREAM_PREFIX + id) is None:
                raise NotFound(f"there are no events of a session {short_repr(id)}; give its whole id")
        appended = await self._store.events.append([rebuild_event(id, actor) for id in found])
        done = await self._wait_for([event.id for event in appended])
        return RebuiltSessions(requested=len(found), rebuilt=done, waiting=len(found) - done, next=more)

    async def _streams(self, after: str | None, limit: int) -> tuple[list[str], str | None]:
        """Ids of sessions that have a stream, in their order, and where the next page begins."""
        page = await self._store.events.streams(STREAM_PREFIX + (after or ""), limit)
        ids = [row.id.removeprefix(STREAM_PREFIX) for row in page.items if row.id.startswith(STREAM_PREFIX)]
        return ids, ids[-1] if len(ids) == limit else None

    async def _wait_for(self, events: Sequence[str]) -> int:
        """Wait until the deliveries of these events have ended. Returns how many have."""
        waiting = list(events)
        for _ in range(round(CLOSE_WAIT_S / CLOSE_LOOK_S)):
            for id in list(waiting):
                rows = (await self._store.operator.deliveries(DeliveryFilter(event=id), None, 1)).items
                if not rows or rows[0].state == State.PENDING:
                    break
                waiting.remove(id)
            if not waiting:
                break
            await asyncio.sleep(CLOSE_LOOK_S)
        return len(events) - len(waiting)

    async def _expire(self, session: Session, actor: str) -> None:
        """Drop the messages that wait. Their senders are notified first: if this process dies in between, closing the
        session again, or the next attempt to deliver them, drops them."""
        for _ in range(EXPIRE_BATCHES_MAX):
            waiting = await self._store.operator.first_in_lane(session.stream, EXPIRE_BATCH)
            if not waiting or self._owner is None:
                return
            messages = [await self._store.events.get(event_id) for _, event_id in waiting]
            signals = [message_status_event(EXPIRED, one, EXPIRED_WHY) for one in messages if one is not None]
            await self._store.events.append(signals)
            if not await self._store.operator.expire(self._owner, [id for id, _ in waiting], actor):
                return

    async def _change(
        self,
        session: Session,
        type: str,
        payload: JsonObject,
        actor: str,
        is_done: Callable[[Session], bool] = lambda row: True,
    ) -> SessionAnswer:
        await self._store.events.append([operator_event(type, session, payload, actor)])
        return session_answer(await self._until(session, is_done))

    async def _until(self, session: Session, is_done: Callable[[Session], bool]) -> Session:
        for _ in range(round(CLOSE_WAIT_S / CLOSE_LOOK_S)):
            session = await self._store.sessions.get(session.id) or session
            if is_done(session):
                break
            await asyncio.sleep(CLOSE_LOOK_S)
        return session

    async def _get(self, id: str) -> Session:
        """The session with this id, the agent's own id, or this name."""
        session = await self._store.sessions.get(id)
        if session is not None:
            return session
        for wanted in (SessionFilter(native_id=id), SessionFilter(name=id)):
            sessions = (await self._store.sessions.find(wanted, None, SAME_MAX)).items
            running = [one for one in sessions if one.state not in FINISHED_STATES] or sessions
            if len(running) > 1:
                ids = [session.id for session in running]
                raise Ambiguous(
                    f"{short_repr(id)} names several sessions: {', '.join(ids)}; choose one", candidates=ids
                )
            if running:
                return running[0]
        raise NotFound(f"there is no session {short_repr(id)}: give its id, the agent's own id, or its name")


def _check_cursor(after: str | None) -> str | None:
    if after is None:
        return None
    time, dot, _ = after.partition(".")
    if not dot or not is_number(time):
        raise bad_cursor(after)
    return after

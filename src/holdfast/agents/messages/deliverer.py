"""Deliveries to `session:` addresses: bring a message into an agent session, and learn that the agent took it.

A message that was submitted is *handed over*: no lease is held while it waits for the agent's own prompt hook. The hook
settles nothing; it makes the delivery due, which is then claimed again, and the evidence decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from weakref import WeakValueDictionary

from holdfast.agents.messages.adapter import Accepted, Adapter, NotYet, Result, Sent, Task, Unknown
from holdfast.agents.messages.evidence import Evidence
from holdfast.agents.messages.journal import DeliveryTrail, Journal
from holdfast.agents.messages.message_files import MessageFiles
from holdfast.agents.messages.session_message import SessionMessage, read_session_message
from holdfast.agents.messages.successor import find_successor
from holdfast.agents.messages.transcript_evidence import is_in_transcript
from holdfast.domain.delivery import Claim, Dead, Delivered, Dropped, Handed, Outcome, Retry
from holdfast.domain.errors import BadInput, StoreError, StreamClosed
from holdfast.domain.message import ACCEPTED
from holdfast.domain.session import Session, SessionState
from holdfast.domain.states import Reason
from holdfast.egress.deliverer import UNTIMED, Attempt
from holdfast.ports import Clock, in_thread
from holdfast.store.roles.store import Store

CONFIRM_S = (0.3, 0.3, 0.4, 0.5)
"""How long an attempt waits for the prompt hook before it hands over; a hook of this process ends a wait."""
CHECK_MIN_S, CHECK_MAX_S = 2.0, 60.0
UNCONFIRMED_MS = 30 * 60 * 1000
NO_SESSION_MS = 60 * 60 * 1000
TRIED_MAX = 10_000
SETTLED_S = 0.1  # by then the outcome of an attempt is stored

log = logging.getLogger("holdfast.messages")


Adopt = Callable[[Session], Awaitable[Session | None]]
"""Resumes a session that has ended; None: it does not."""


class SessionDeliverer:
    """Delivers messages by the first adapter that can reach the session. `serves` limits the addresses."""

    kind = "session"

    def __init__(
        self,
        store: Store,
        adapters: Sequence[Adapter],
        clock: Clock,
        host: str,
        serves: Callable[[], frozenset[str] | None] = lambda: None,
        adopt: Adopt | None = None,
        confirm_s: Sequence[float] = CONFIRM_S,
        files: MessageFiles | None = None,
    ) -> None:
        self._confirm_s = confirm_s
        self._sessions, self._adapters, self._clock, self._host = store.sessions, adapters, clock, host
        self._deliveries = store.deliveries
        self._serves, self._adopt, self._files = serves, adopt, files
        self._journal, self._evidence = Journal(store.events, clock), Evidence(store.events)
        self._waiting: dict[str, asyncio.Event] = {}
        self._tried: OrderedDict[str, str] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def serves(self) -> frozenset[str] | None:
        return self._serves()

    def lanes_waiting_for(self, session_id: str) -> list[str]:
        """The lanes with a message that this process tried and that waits for this session."""
        return [lane for lane, target in self._tried.items() if target == session_id]

    def on_prompt(self, session_id: str) -> None:
        """A prompt hook of this session was stored: look for evidence now."""
        if (waiting := self._waiting.get(session_id)) is not None:
            waiting.set()

    def make_due(self, lane: str, after_s: float = 0.0) -> None:
        """Make the head of a lane due in a moment. Without this, it is due when the sweeper finds it."""
        if len(self._tasks) < TRIED_MAX:
            task = asyncio.get_running_loop().create_task(self._make_due(lane, after_s))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make_due(self, lane: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        try:
            await self._deliveries.make_head_due(lane)
        except StoreError as error:  # it is due later anyway
            log.warning("the next message of %s was not made due: %s", lane, error)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def deliver(self, claim: Claim, attempt: Attempt = UNTIMED) -> Outcome:
        try:
            message = read_session_message(claim)
        except BadInput as error:
            return Dead(Reason.REJECTED, error.message)
        session = await self._sessions.get(message.session_id)
        if session is None:
            return await self._no_session(message)
        if session.state is SessionState.CLOSED:
            await self._journal.expired(message)
            return Dropped(Reason.EXPIRED)
        if self._files is not None:
            message = await self._files.attach(message)
        try:
            return await self._deliver(message, session, first=claim.starts <= 1 and claim.delivery.attempts == 0)
        except StreamClosed:
            return Dropped(Reason.EXPIRED)

    async def _deliver(self, message: SessionMessage, session: Session, first: bool) -> Outcome:
        trail = await self._journal.read(message, first)
        if trail.begun and await self._is_accepted(message, trail):
            return self._accepted(message)
        if trail.submitting and self._evidence.idle_ms(message, trail, self._clock.now_ms()) >= UNCONFIRMED_MS:
            return await self._failed(
                message, Reason.UNCONFIRMED, "the agent was idle for 30 minutes and did not confirm the message"
            )
        session = await find_successor(self._sessions, session)
        self._note(message, session)
        if session.host not in (None, self._host):
            return Retry(f"the session runs on {session.host}, and this is {self._host}")
        if self._adopt is not None and session.state is SessionState.ENDED and not trail.submitting:
            session = await self._adopt(session) or session
        adapter = await self._choose(message, session)
        if adapter is None:
            return self._wait(message, trail, NotYet("the session has no terminal that a message could be sent to"))
        # A session and the one that it continues are two lanes with one terminal.
        turn = self._turns.setdefault(session.id, asyncio.Lock())
        async with turn:
            result = await adapter.send(Task(message, session, trail, self._journal))
        return await self._conclude(message, result)

    async def _choose(self, message: SessionMessage, session: Session) -> Adapter | None:
        """The first adapter that can reach the session."""
        for adapter in self._adapters:
            if not (message.command and adapter.literal) and await adapter.fits(session):
                return adapter
        return None

    async def _is_accepted(self, message: SessionMessage, trail: DeliveryTrail) -> bool:
        """Whether the agent took a message that was begun before: its hooks say so, or its transcript."""
        if await self._evidence.found(message, trail):
            return True
        target = await self._sessions.get(trail.session_id) if trail.submitting else None
        if target is None or target.transcript is None or target.host not in (None, self._host):
            return False
        return await in_thread("files", partial(is_in_transcript, target, message.text, trail.begun_ms))

    async def _conclude(self, message: SessionMessage, result: Result) -> Outcome:
        trail = await self._journal.read(message, first=True)
        match result:
            case Accepted():
                return self._accepted(message)
            case Sent(confirms):
                just_now = trail.sent_ms is None
                trail = await self._journal.sent(message, trail)
                if not confirms or message.command:
                    self._forget(message)
                    return Delivered(detail={"confirmed": False})
                if just_now and await self._confirmed(message, trail):
                    return self._accepted(message)
                return self._wait(message, trail, result)
            case NotYet() | Unknown():
                return self._wait(message, trail, result)

    async def _confirmed(self, message: SessionMessage, trail: DeliveryTrail) -> bool:
        """Wait a moment for the prompt hook, which an idle agent runs at once."""
        prompted = self._waiting[trail.session_id] = asyncio.Event()
        try:
            for wait_s in self._confirm_s:
                if await self._evidence.found(message, trail):
                    return True
                try:
                    async with asyncio.timeout(wait_s):
                        await prompted.wait()
                    prompted.clear()
                except TimeoutError:
                    pass
            return await self._evidence.found(message, trail)
        finally:
            if self._waiting.get(trail.session_id) is prompted:
                del self._waiting[trail.session_id]

    def _wait(self, message: SessionMessage, trail: DeliveryTrail, result: Result) -> Outcome:
        """Handed over if the message may have been submitted, else another attempt."""
        if isinstance(result, NotYet) and not (trail.submitting and trail.sent_ms is not None):
            return Retry(result.reason, result.after_s)
        waited_s = (self._clock.now_ms() - trail.begun_ms) / 1000
        check_s = min(CHECK_MAX_S, max(CHECK_MIN_S, waited_s / 2))
        self.make_due(message.stream, check_s + SETTLED_S)
        return Handed(check_s)

    def _accepted(self, message: SessionMessage) -> Outcome:
        self._forget(message)
        return Delivered(effects=[message.signal(ACCEPTED, self._clock.now_ms())])

    async def _no_session(self, message: SessionMessage) -> Outcome:
        if self._clock.now_ms() - message.event.accepted_at_ms < NO_SESSION_MS:
            return Retry(f"there is no session {message.session_id}")
        return await self._failed(message, Reason.NO_SESSION, f"there was no session {message.session_id} for an hour")

    async def _failed(self, message: SessionMessage, reason: Reason, error: str) -> Outcome:
        self._forget(message)
        await self._journal.failed(message, reason)
        return Dead(reason, error)

    def _note(self, message: SessionMessage, session: Session) -> None:
        self._tried[message.stream] = session.id
        while len(self._tried) > TRIED_MAX:
            self._tried.popitem(last=False)

    def _forget(self, message: SessionMessage) -> None:
        self._tried.pop(message.stream, None)
        self._journal.forget(message)
        self._evidence.forget(message)

"""Delivery to a function of this process: sessions of an application's own agents, and tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from holdfast.agents.messages.adapter import Accepted, NotYet, Result, Task
from holdfast.agents.messages.session_message import SessionMessage
from holdfast.domain.errors import RetryAfter
from holdfast.domain.session import Session

SessionHandler = Callable[[Session, SessionMessage], Awaitable[None]]


class HandlerAdapter:
    """Calls the handler registered for a session's agent. Returning means that the agent took the message."""

    name = "handler"
    literal = False

    def __init__(self, handlers: Mapping[str, SessionHandler]) -> None:
        self._handlers = handlers

    async def fits(self, session: Session) -> bool:
        return session.agent in self._handlers

    async def send(self, task: Task) -> Result:
        try:
            await self._handlers[task.session.agent](task.session, task.message)
        except RetryAfter as error:
            return NotYet(str(error), error.seconds)
        return Accepted()

"""A tmux server of a test, stand-in agents in its panes, and a runtime that delivers messages to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from holdfast.agents.messages.handler_adapter import SessionHandler
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.message import Message, message_event
from holdfast.domain.session import SessionChange
from holdfast.home import Home
from holdfast.store.open import open_store
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow
from holdfast.store.roles.store import Store

WAIT_S = 60.0
T = TypeVar("T")


class Messenger:
    """A runtime over a store, which delivers messages into sessions."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self.store, self.runtime = store, runtime

    async def send(self, session_id: str, *texts: str, **fields: Any) -> list[str]:
        events = [message_event(session_id, Message(content=text, **fields)) for text in texts]
        return [appended.id for appended in await self.store.events.append(events)]

    async def rows(self, session_id: str) -> list[DeliveryRow]:
        """The deliveries to a session, oldest first."""
        wanted = DeliveryFilter(address=f"session:{session_id}")
        return (await self.store.operator.deliveries(wanted, None, 1000)).items[::-1]

    async def settled(self, session_id: str, count: int, timeout_s: float = WAIT_S) -> list[DeliveryRow]:
        """Wait until so many deliveries to a session have ended."""

        async def look() -> list[DeliveryRow] | None:
            rows = await self.rows(session_id)
            return rows if sum(row.state != "pending" for row in rows) >= count else None

        return await until(look, timeout_s, partial(self._describe, session_id))

    async def waiting(self, session_id: str, text: str) -> DeliveryRow:
        """Wait until the last error of the first pending delivery contains a text."""

        async def look() -> DeliveryRow | None:
            rows = [row for row in await self.rows(session_id) if row.state == "pending"]
            return rows[0] if rows and text in (rows[0].last_error or rows[0].waits_for or "") else None

        return await until(look, WAIT_S, partial(self._describe, session_id))

    async def attempted(self, session_id: str, attempts: int) -> None:
        """Wait until the first pending delivery was attempted so often."""

        async def look() -> bool | None:
            rows = [row for row in await self.rows(session_id) if row.state == "pending"]
            return bool(rows and rows[0].attempts >= attempts) or None

        await until(look, WAIT_S, partial(self._describe, session_id))

    async def session(self, session_id: str, **facts: Any) -> None:
        """Wait until a session exists and has these facts."""

        async def look() -> bool | None:
            session = await self.store.sessions.get(session_id)
            return (
                session is not None and all(session.facts.get(name) == fact for name, fact in facts.items())
            ) or None

        await until(look, WAIT_S, partial(self._describe, session_id))

    async def is_version(self, session_id: str, version: str) -> None:
        """A stand-in belongs to no package; say which version it acts like."""
        session = await self.store.sessions.get(session_id)
        assert session is not None
        facts = {"agent_version": version}
        await self.store.sessions.change(SessionChange(session.id, session.agent, session.native_id, facts=facts))

    async def types(self, session_id: str) -> list[str]:
        """The message events of a session, in order."""
        events = await self.store.events.read(f"session:{session_id}", 0, 1000)
        return [event.type.removeprefix("message.") for event in events if event.source == "message"]

    async def _describe(self, session_id: str) -> str:
        rows = await self.rows(session_id)
        return f"{[(row.state, row.reason, row.attempts, row.last_error, row.waits_for) for row in rows]}"


async def until(look: Callable[[], Awaitable[T | None]], timeout_s: float, why: Callable[[], Awaitable[str]]) -> T:
    ends = time.monotonic() + timeout_s
    while (found := await look()) is None:
        if time.monotonic() > ends:
            raise AssertionError(await why())
        await asyncio.sleep(0.02)
    return found


@asynccontextmanager
async def messenger(
    home: Path, url: str | None = None, config: str = "", handlers: Mapping[str, SessionHandler] | None = None
) -> AsyncIterator[Messenger]:
    """A runtime in this process. Without a URL it works on the home's own store."""
    at = Home(home)
    at.make()
    at.config.write_text(config or "{}", encoding="utf-8")
    store = open_store(url or f"sqlite:///{at.database}", keep=url is None)
    runtime = Runtime(store, load_config(at.config), at, session_handlers=handlers)
    await runtime.start()
    try:
        yield Messenger(store, runtime)
    finally:
        await runtime.stop(grace_s=1.0)

"""A runtime on a store, with agents that are functions of the test: they fire the hooks that a real CLI fires."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.agents.hooks.hook import SOURCE as HOOK
from holdfast.agents.hooks.hook import session_id_of
from holdfast.agents.messages.session_message import SessionMessage
from holdfast.config.config import load_config
from holdfast.config.contract_form import read_contract
from holdfast.daemon.runtime import Runtime
from holdfast.domain.event import Event, NewEvent, iso_time, new_event
from holdfast.domain.lane import SESSIONS
from holdfast.domain.retry import POLICIES
from holdfast.domain.session import Session
from holdfast.ingress.webhook.platforms import find_normalizer
from holdfast.ports import SystemClock
from holdfast.store.open import open_store
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow

WAIT_S = 60.0
AGENT = "toy"


def hook(native_id: str, event_type: str, **fields: Any) -> NewEvent:
    """The event of an agent's hook, as the daemon imports it."""
    session_id = session_id_of(AGENT, native_id)
    names = {"agent": AGENT, "native_event": event_type, "event_type": event_type, "native_id": native_id}
    return new_event(
        f"hook.{event_type}",
        {**names, **fields},
        source=HOOK,
        stream=f"session:{session_id}",
        timestamp=iso_time(SystemClock().now_ms()),
        properties={**names, "session_id": session_id},
        to=SESSIONS,
    )


class SessionsWorld:
    """`answer`: what the agents say to a message; None: nothing, they stay idle."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.store, self.operations = runtime, runtime.store, runtime.operations
        self.got: list[tuple[str, str]] = []
        self.answer: Callable[[str], str] | None = None

    async def take(self, session: Session, message: SessionMessage) -> None:
        """An agent takes a message: it prompts itself with it, and answers."""
        self.got.append((session.id, message.text))
        hooks = [hook(session.native_id, "user_prompt_submit", prompt=message.text)]
        if self.answer is not None:
            hooks.append(hook(session.native_id, "agent_stop", answer=self.answer(message.text)))
        await self.store.events.append(hooks)

    async def begin(self, *native_ids: str, **fields: Any) -> None:
        await self.store.events.append([hook(id, "session_start", source="startup", **fields) for id in native_ids])
        await self.until(lambda: self._all_there(native_ids))

    async def _all_there(self, native_ids: tuple[str, ...]) -> bool:
        return all([await self.store.sessions.get(session_id_of(AGENT, id)) for id in native_ids])

    async def contract(self, id: str, session: str, **body: Any) -> None:
        source = body.pop("source", "api")
        form = {"id": id, "target": {"session": session}, **body}
        contract, secret, headers = read_contract(form, POLICIES, 0, source)
        await self.store.contracts.put(contract, secret, headers=headers)

    async def request(self, platform: str, payload: Any, headers: dict[str, str] | None = None) -> str:
        """A platform's request after its signature was verified. Returns the id of its event."""
        made = find_normalizer(platform, platform, {})(payload, headers or {})
        (event,) = made if isinstance(made, list) else [made]
        new = new_event(
            event.type, event.payload, source=event.source, stream=event.stream, properties=event.properties
        )
        return (await self.store.events.append([new]))[0].id

    async def end_of(self, event_id: str) -> DeliveryRow:
        """The only delivery of an event, once it has ended."""
        rows: list[DeliveryRow] = []

        async def is_over() -> bool:
            rows[:] = (await self.store.operator.deliveries(DeliveryFilter(event=event_id), None, 10)).items
            return bool(rows) and rows[0].state != "pending"

        await self.until(is_over)
        (row,) = rows
        return row

    async def messages(self, native_id: str) -> list[Event]:
        stream = f"session:{session_id_of(AGENT, native_id)}"
        return [one for one in await self.store.events.read(stream, 0, 1000) if one.type == "message.queued"]

    async def until(self, look: Callable[[], Any]) -> None:
        async with asyncio.timeout(WAIT_S):
            while True:
                found = look()
                if await found if asyncio.iscoroutine(found) else found:
                    return
                await asyncio.sleep(0.01)


@asynccontextmanager
async def sessions_world(folder: Path, url: str, config: str = "") -> AsyncIterator[SessionsWorld]:
    path = folder / "holdfast.yml"
    path.write_text(config)
    store = open_store(url, driver="sqlite3", keep=True, own=False)
    agents: dict[str, Any] = {AGENT: lambda session, message: world.take(session, message)}
    runtime = Runtime(store, load_config(path), None, session_handlers=agents)
    await runtime.start()
    world = SessionsWorld(runtime)
    try:
        yield world
    finally:
        await runtime.stop(1.0)

"""Messages into agent sessions: into an idle agent in tmux, and through handlers of the process at full speed.

The agent is the stand-in of the proof: what is measured is the time from the accepted message to its paste, which
depends on Holdfast and tmux alone.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

from benchmarks.measure import Results
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from holdfast.agents.messages.handler_adapter import SessionHandler
from holdfast.agents.messages.session_message import SessionMessage
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.message import Message, message_event
from holdfast.domain.session import Session, SessionChange, SessionState
from holdfast.home import Home
from holdfast.proof.messages.stage import Agent, TmuxServer
from holdfast.store.open import open_store

PASTES = 30
SESSIONS, EACH = 1000, 10
WAIT_S = 120.0


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    if shutil.which("tmux") is not None:
        for taken_ms in asyncio.run(time_pastes(folder / "tmux-home", PASTES)):
            results.add("messages.pasted", taken_ms, "ms")
    rate, ordered = asyncio.run(time_handlers(folder / "handler-home", SESSIONS, EACH))
    results.add("messages.handled", rate, "/s")
    if not ordered:
        raise RuntimeError("messages arrived out of order")


async def time_pastes(folder: Path, count: int) -> list[float]:
    """Milliseconds from the moment a message is accepted until the agent has read the paste."""
    home = Home(folder)
    home.make()
    store = open_store(f"sqlite:///{home.database}", keep=True)
    runtime = Runtime(store, load_config(None), home)
    await runtime.start()
    tmux = TmuxServer()
    try:
        agent = Agent(tmux, folder)
        agent.wait_started()
        while await store.sessions.get(agent.session_id) is None:
            await asyncio.sleep(0.02)
        taken = []
        for number in range(count):
            await store.events.append([message_event(agent.session_id, Message(content=f"message {number}"))])
            began_s = time.time()
            while len(agent.prompts) <= number:
                await asyncio.sleep(0.005)
            taken.append((agent.logged("pasted_at")[number] - began_s) * 1000)
            await asyncio.sleep(0.3)  # until it is idle again
        return taken
    finally:
        tmux.close()
        await runtime.stop(1.0)


async def time_handlers(folder: Path, sessions: int, each: int) -> tuple[float, bool]:
    """Messages per second through handlers, from the first append until the last was handled, and whether in order."""
    home = Home(folder)
    home.make()
    store = open_store(f"sqlite:///{home.database}", keep=True)
    seen: dict[str, list[int]] = {}

    async def take(session: Session, message: SessionMessage) -> None:
        seen.setdefault(session.id, []).append(int(message.text))

    handlers: dict[str, SessionHandler] = {"bench": take}
    runtime = Runtime(store, load_config(None), home, session_handlers=handlers)
    await runtime.start()
    try:
        names = [f"bench-{number}" for number in range(sessions)]
        for name in names:
            await store.sessions.change(SessionChange(name, "bench", name, state=SessionState.IDLE))
        began_s = time.monotonic()
        for number in range(each):
            events = [message_event(name, Message(content=str(number))) for name in names]
            for first in range(0, len(events), 500):
                await store.events.append(events[first : first + 500])
        while sum(map(len, seen.values())) < sessions * each and time.monotonic() - began_s < WAIT_S:
            await asyncio.sleep(0.01)
        taken_s = time.monotonic() - began_s
    finally:
        await runtime.stop(1.0)
    complete = all(seen.get(name) == list(range(each)) for name in names)
    return sessions * each / taken_s, complete

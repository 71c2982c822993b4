"""Rounds of the proof for messages: send some, kill something, start it again, account for every message."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.domain.message import Message, message_event
from holdfast.home import Home, read_address
from holdfast.proof.kills.processes import Stuck
from holdfast.proof.messages.stage import Agent, TmuxServer
from holdfast.proof.receipt_faults import verify_store
from holdfast.store.open import open_store
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow
from holdfast.store.roles.store import Store

VICTIMS = ("daemon", "agent", "tmux")
MOMENTS = ("before the paste", "after the paste", "after the key")
KINDS = tuple(f"{victim} killed {moment}" for victim in VICTIMS for moment in MOMENTS)
MESSAGES = 3
WAIT_S = 60.0
QUIET_S = 4.0  # how long a message must wait for its confirmation, with no change, to count as unconfirmed
CONFIG = "sessions: {deliver: true}\n"


@dataclass
class MessageReport:
    """What became of the messages of all rounds."""

    kills: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    delivered: int = 0
    unconfirmed: int = 0
    violations: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.violations

    def count(self, *promises: str) -> int:
        return sum(violation.partition(":")[0] in promises for violation in self.violations)


class Daemon:
    """The real daemon in a process of its own."""

    def __init__(self, home: Home, store_url: str | None) -> None:
        self._home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self._env = {**kept, "HOLDFAST_HOME": str(home.root), **({"HOLDFAST_STORE": store_url} if store_url else {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with (self._home.root / "daemon.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", "up", "--port", "0"], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env=self._env, start_new_session=True,
            )  # fmt: skip
        ends = time.monotonic() + WAIT_S
        while read_address(self._home.address_file) is None:
            if time.monotonic() > ends or self._process.poll() is not None:
                raise Stuck("the daemon did not start; see daemon.log")
            time.sleep(0.02)

    def kill9(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(WAIT_S)
            self._process = None


class MessageCampaign:
    """`rounds` rounds on one store, all kinds in turn. Without a URL the store is the home's own SQLite file."""

    def __init__(self, root: Path, store_url: str | None, seed: int, progress: Callable[[str], None]) -> None:
        self._home, self._store_url, self._progress = Home(root), store_url, progress
        self._chance, self._report = random.Random(seed), MessageReport()

    def run(self, rounds: int) -> MessageReport:
        self._home.make()
        self._home.config.write_text(CONFIG, encoding="utf-8")
        asyncio.run(self._run(rounds))
        return self._report

    async def _run(self, rounds: int) -> None:
        daemon = Daemon(self._home, self._store_url)
        store = open_store(self._store_url or f"sqlite:///{self._home.database}", keep=False)
        try:
            for number in range(rounds):
                kind = KINDS[number % len(KINDS)]
                await self._round(daemon, store, number, kind)
                self._report.kills[kind] += 1
                self._progress(f"  {number + 1} of {rounds}: {kind}")
            daemon.kill9()
            self._report.violations += [f"receipts: {fault}" for fault in await verify_store(store)]
        finally:
            daemon.kill9()
            await store.close()

    async def _round(self, daemon: Daemon, store: Store, number: int, kind: str) -> None:
        tmux = TmuxServer()
        try:
            agent = Agent(tmux, self._home.root, f"r{number}")
            agent.wait_started()
            await _until(lambda: _exists(store, agent), "the session does not exist")
            texts = [f"message {index} of round {number}" for index in range(MESSAGES)]
            await store.events.append([message_event(agent.session_id, Message(content=text)) for text in texts])
            victim, _, moment = kind.partition(" killed ")
            await self._wait_for(moment, agent)
            _kill(victim, daemon, agent, tmux)
            rows = await self._settled(store, agent)
            self._judge(kind, agent, texts, rows)
        finally:
            tmux.close()

    async def _wait_for(self, moment: str, agent: Agent) -> None:
        key = {"after the paste": "pasted", "after the key": "prompt"}.get(moment)
        if key is not None:
            await _until(lambda: _logged(agent, key), f"the agent logged no {key}")
        await asyncio.sleep(self._chance.random() * 0.06)

    async def _settled(self, store: Store, agent: Agent) -> list[DeliveryRow]:
        """The deliveries when all have ended, or when the first has waited for its confirmation for a while."""
        ends, quiet_since, before = time.monotonic() + WAIT_S, time.monotonic(), ""
        while True:
            rows = await _rows(store, agent)
            if len(rows) == MESSAGES and all(row.state != "pending" for row in rows):
                return rows
            now = repr([(row.state, row.waits_for) for row in rows])
            if now != before:
                before, quiet_since = now, time.monotonic()
            waits = next((row.waits_for for row in rows if row.state == "pending"), None)
            if waits == "confirmation" and time.monotonic() - quiet_since > QUIET_S:
                return rows
            if time.monotonic() > ends:
                return rows
            await asyncio.sleep(0.05)

    def _judge(self, kind: str, agent: Agent, texts: list[str], rows: list[DeliveryRow]) -> None:
        report, prompts = self._report, agent.prompts
        report.messages += len(texts)
        report.delivered += sum(row.state == "delivered" for row in rows)

        def broken(promise: str, detail: str) -> None:
            report.violations.append(f"{promise}: {kind}, session {agent.session_id}: {detail}")

        for text in texts:
            if prompts.count(text) > 1:
                broken("duplicate", f"{text!r} was submitted {prompts.count(text)} times")
        if [text for text in texts if text in prompts] != list(dict.fromkeys(prompts)):
            broken("order", f"submitted were {prompts}")
        if len(rows) != len(texts):
            broken("lost", f"{len(rows)} deliveries for {len(texts)} messages")
        for text, row in zip(texts, rows, strict=False):
            if row.state == "delivered" and text not in prompts:
                broken("lost", f"{text!r} is delivered, but the agent never got it")
            if row.state in ("dead", "dropped"):
                broken("lost", f"{text!r} ended as {row.state}({row.reason})")
        pending = [row for row in rows if row.state == "pending"]
        if pending and pending[0].waits_for == "confirmation" and not kind.startswith("daemon"):
            report.unconfirmed += 1  # the agent died with the message: only it could have said whether it took it
        elif pending:
            broken("lost", f"not delivered in {WAIT_S:g} s: {pending[0].last_error or pending[0].waits_for}")
        if agent.logged("approved"):
            broken("approved", "a message answered a question")


def _kill(victim: str, daemon: Daemon, agent: Agent, tmux: TmuxServer) -> None:
    match victim:
        case "daemon":
            daemon.kill9()
            daemon.start()
        case "agent":
            os.kill(agent.pid, signal.SIGKILL)
            agent.start(source="resume")
        case "tmux":
            tmux.kill9()
            tmux.start()
            agent.start(source="resume")


async def _rows(store: Store, agent: Agent) -> list[DeliveryRow]:
    wanted = DeliveryFilter(address=f"session:{agent.session_id}")
    return (await store.operator.deliveries(wanted, None, 100)).items[::-1]


async def _exists(store: Store, agent: Agent) -> bool:
    return await store.sessions.get(agent.session_id) is not None


async def _logged(agent: Agent, key: str) -> bool:
    return bool(agent.logged(key))


async def _until(look: Callable[[], Any], why: str) -> None:
    ends = time.monotonic() + WAIT_S
    while not await look():
        if time.monotonic() > ends:
            raise Stuck(why)
        await asyncio.sleep(0.002)

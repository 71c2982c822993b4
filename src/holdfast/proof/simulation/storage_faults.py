"""Deliberate faults in storage: intake, spool, receipts, statements. `mutants` names the fault of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.domain.event import Appended, NewEvent
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.receipt import Leaf
from holdfast.domain.states import State
from holdfast.ports import Clock
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.migrate import scripts, split
from holdfast.store.sqlite.receipts import write_link
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.store import SqliteStore


class ImportsTwice:
    """Events for the spool import: stores an event again under another id if it is already stored."""

    def __init__(self, store: SqliteStore, spool: Path) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store.events, name)

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        fresh = []
        for event in events:
            known = event.id is not None and await self._store.events.get(event.id) is not None
            fresh.append(_renamed(event) if known else event)
        return await self._store.events.append(fresh)


def _renamed(event: NewEvent) -> NewEvent:
    return event._replace(id=None, dedup_key=None)


def link_no_dead(connection: Any, chain: str, at_ms: int, actor: str, transitions: Sequence[Leaf]) -> None:
    write_link(connection, chain, at_ms, actor, [leaf for leaf in transitions if leaf[3] != State.DEAD])


def without(name: str, *parts: tuple[str, str]) -> dict[str, str]:
    """A statement with parts of it replaced; each part must exist."""
    text = getattr(sql, name)
    for old, new in parts:
        if old not in text:
            raise ValueError(f"the statement {name} does not contain {old!r}")
        text = text.replace(old, new)
    return {name: text}


UNFENCED = ("AND token = ?", "AND ? IS NOT NULL")
UNFENCED_END = ("token = ?1", "?1 IS NOT NULL")
UNCOUNTED = ("starts = starts + 1", "starts = starts")
OLDEST = (
    "pos = (SELECT min(pos) FROM holdfast_deliveries WHERE lane = ?1 AND state = 'pending')",
    "id = (SELECT id FROM holdfast_deliveries WHERE lane = ?1 AND state = 'pending' ORDER BY created_at, id LIMIT 1)",
)


class _Intake:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store.events, name)


class AnswersBeforeCommit(_Intake):
    """Returns from `append` before the commit."""

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        now_ms, store = 0, self._store
        named = [
            event._replace(id=make_id("evt", now_ms, store.events._chance.entropy(ENTROPY_BYTES))) for event in events
        ]
        answers = []
        for offset, event in enumerate(named):
            known = await store._reader.run(partial(_first_of, event))
            if known:
                answers.append(Appended(known[0], known[1] or known[0], known[2], True))
                continue
            head = await store.events.stream(event.stream) if event.stream else None
            before = sum(other.stream == event.stream for other in named[:offset]) if event.stream else 0
            answers.append(
                Appended(event.id or "", event.stream or event.id or "", 1 + before + (head.head if head else 0), False)
            )
        asyncio.get_running_loop().create_task(store.events.append(named))
        return answers


def _first_of(event: NewEvent, connection: Connection) -> tuple[Any, ...] | None:
    rows = connection.rows(sql.event_first, (event.source, event.dedup_key))
    return rows[0] if rows else None


class KeepsOnlyTheLast(_Intake):
    """Stores only the last event of a batch, but answers as if it had stored all."""

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        return await self._store.events.append(events[-1:]) * len(events)


class ForgetsKeys(_Intake):
    """Treats a known dedup key as a new one."""

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        fresh = []
        for event in events:
            known = await self._store._reader.run(partial(_first_of, event))
            fresh.append(_renamed(event) if known else event)
        return await self._store.events.append(fresh)


class RemovesSpoolFirst(_Intake):
    """Events for the spool import: removes the records before they are stored."""

    def __init__(self, store: SqliteStore, spool: Path) -> None:
        super().__init__(store)
        self._spool = spool

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        for record in self._spool.glob("*.evt"):
            record.unlink()
        return await self._store.events.append(events)


class WallClock:
    """A clock whose boot time is the wall clock, so leases depend on it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @property
    def boot_id(self) -> str:
        return self._clock.boot_id

    def now_ms(self) -> int:
        return self._clock.now_ms()

    boot_ms = now_ms


def link_over_tail(connection: Connection, chain: str, at_ms: int, actor: str, transitions: Sequence[Leaf]) -> None:
    """Each link replaces the previous one. The chain still verifies."""
    rows = connection.rows(
        "SELECT seq, prev FROM holdfast_receipts WHERE chain = ? ORDER BY seq DESC LIMIT 1", (chain,)
    )
    if transitions and rows and rows[0][0] > 1:
        connection.run("DELETE FROM holdfast_receipts WHERE chain = ? AND seq = ?", (chain, rows[0][0]))
        connection.run(
            "UPDATE holdfast_nodes SET seq = ?, head = ? WHERE chain = ?", (rows[0][0] - 1, rows[0][1], chain)
        )
    write_link(connection, chain, at_ms, actor, transitions)


def apply_in_pieces(connection: Connection, found: int) -> None:
    """A migration that commits after each statement."""
    for number, script in scripts():
        for statement in split(script) if number > found else ():
            connection.run(statement)
            connection.run("COMMIT")
            connection.run("BEGIN IMMEDIATE")


FIRST_QUEUE = """
SELECT q.id, q.contract, q.address, q.kind,
       (SELECT min(due_at) FROM holdfast_ready WHERE token IS NULL AND queue = q.id)
FROM holdfast_queues q WHERE q.id > ?1 AND ?2 > 0 ORDER BY q.id LIMIT 1"""

"""Contracts on SQLite. Every change bumps a version that the router checks in its own transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.event import iso_time
from holdfast.ports import Clock
from holdfast.store.base import QueueRow
from holdfast.store.sqlite.connection import Connection, Row
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer


class SqliteContracts:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock, changed: Callable[[str], None]) -> None:
        self._writer, self._reader, self._clock, self._changed = writer, reader, clock, changed

    async def put(self, contract: Contract, secret: str | None, *, keep: bool = False) -> None:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> None:
            known = connection.rows(sql.contract_get, (contract.id,)) if keep else []
            active = bool(known[0][2]) if known else contract.active
            created = known[0][4] if known else contract.created_at_ms or now_ms
            row = (contract.id, contract_text(contract), int(active), contract.source, created, now_ms)
            connection.run(sql.contract_put, row)
            if not keep or secret is not None:
                connection.run(sql.secret_clear, (contract.id,))
            if secret is not None:
                connection.run(sql.secret_add, (contract.id, secret, now_ms))
            address = contract.address
            connection.run(sql.queue_put, (contract.id, address.text, address.kind, int(not active), now_ms))
            connection.run(sql.contract_bump)

        await self._writer.run(work)
        self._changed("contracts")

    async def get(self, id: str) -> Contract | None:
        rows = await self._reader.run(lambda c: c.rows(sql.contract_get, (id,)))
        return _contract(rows[0]) if rows else None

    async def all(self, inactive: bool = False) -> list[Contract]:
        rows = await self._reader.run(lambda c: c.rows(sql.contract_all))
        return [_contract(row) for row in rows if inactive or row[2]]

    async def remove(self, id: str) -> bool:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> bool:
            if not connection.run(sql.contract_remove, (now_ms, now_ms, id)):
                return False
            connection.run(sql.secret_clear, (id,))
            connection.run(sql.queue_park, (1, id))
            connection.run(sql.contract_bump)
            return True

        removed = await self._writer.run(work)
        self._changed("contracts")
        return removed

    async def set_active(self, id: str, active: bool) -> bool:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> bool:
            if not connection.run(sql.contract_activate, (int(active), now_ms, id, int(active))):
                return False
            connection.run(sql.queue_park, (int(not active), id))
            connection.run(sql.contract_bump)
            return True

        done = await self._writer.run(work)
        self._changed("contracts")
        self._changed("deliveries")
        return done

    async def secrets(self, id: str) -> list[str]:
        return [row[0] for row in await self._reader.run(lambda c: c.rows(sql.secret_all, (id,)))]

    async def version(self) -> int:
        return int((await self._reader.run(lambda c: c.rows(sql.contract_version)))[0][0])

    async def queues(self) -> list[QueueRow]:
        rows = await self._reader.run(lambda c: c.rows(sql.queue_all))
        return [QueueRow(r[0], r[1] or None, r[2], r[3], bool(r[4]), bool(r[5]), r[6]) for r in rows]


def contract_text(contract: Contract) -> str:
    """The stored form: readable, and without the secret."""
    target: dict[str, str | None] = {"url": None, "handler": None, "session": None}
    address = contract.address
    target["url" if address.kind == "https" else address.kind] = (
        address.text if address.kind == "https" else address.name
    )
    return json.dumps(
        {
            "id": contract.id,
            "target": target,
            "source_criterion": contract.source_criterion and contract.source_criterion.as_dict(),
            "type_criterion": contract.type_criterion and contract.type_criterion.as_dict(),
            "properties": {name: criterion.as_dict() for name, criterion in contract.properties.items()},
            "expires_at": contract.expires_at_ms and iso_time(contract.expires_at_ms),
            "expires_at_ms": contract.expires_at_ms,
            "policy": contract.policy,
            "attempts": contract.attempts,
            "ordered": contract.ordered,
            "timeout": contract.timeout_s,
            "concurrency": contract.concurrency,
        },
        ensure_ascii=False,
    )


def _contract(row: Row) -> Contract:
    id, text, active, source, created_at = row
    stored: dict[str, Any] = json.loads(text)
    target = stored["target"]
    kind = next(kind for kind in ("url", "handler", "session") if target.get(kind) is not None)
    return Contract(
        id=id,
        address=parse_address(target["url"] if kind == "url" else f"{kind}:{target[kind]}"),
        source_criterion=_criterion(stored.get("source_criterion")),
        type_criterion=_criterion(stored.get("type_criterion")),
        properties={name: _known(value) for name, value in stored.get("properties", {}).items()},
        source=source,
        active=bool(active),
        created_at_ms=created_at,
        expires_at_ms=stored.get("expires_at_ms"),
        policy=stored.get("policy"),
        attempts=stored.get("attempts"),
        ordered=stored.get("ordered"),
        timeout_s=stored.get("timeout"),
        concurrency=stored.get("concurrency"),
    )


def _criterion(value: Mapping[str, Any] | None) -> Criterion | None:
    return None if value is None else _known(value)


def _known(value: Mapping[str, Any]) -> Criterion:
    match = value.get("match")
    return Criterion(tuple(match) if isinstance(match, list) else match, value.get("pattern"), value["required"])

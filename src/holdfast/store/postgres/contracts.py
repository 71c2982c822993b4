"""Contracts on PostgreSQL. Every change bumps a version that the router checks in its own transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from holdfast.domain.contract import Contract
from holdfast.domain.json_value import Json
from holdfast.domain.receipt import contract_lines
from holdfast.domain.registered_contracts import header_values
from holdfast.ports import Clock
from holdfast.store.contract_cache import ContractCache
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.receipts import write_action, write_lines
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.contracts import ContractChange, ContractInput, ContractSecrets, QueueRow
from holdfast.store.roles.owners import Actor
from holdfast.store.rows import (
    contract_digest,
    contract_text,
    is_same,
    retirable,
    to_contract,
    to_contract_change,
    to_private,
    to_queue_row,
)


class PostgresContracts:
    def __init__(self, pool: Pool, clock: Clock, changed: Callable[[str], None]) -> None:
        self._pool, self._clock, self._changed = pool, clock, changed
        self._cache = ContractCache()

    async def put(
        self,
        contract: Contract,
        secret: str | None,
        *,
        headers: Mapping[str, str] | None = None,
        keep: bool = False,
        by: Actor | None = None,
    ) -> None:
        await self._pool.opened()
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> None:
            active = await _put(connection, ContractInput(contract, secret, headers), keep, now_ms)
            digest = contract_digest(contract)
            await _changed(connection, by, now_ms, "contract.put", contract=contract.id, digest=digest, active=active)

        await self._pool.run(work, repeatable=True)
        self._changed("contracts")

    async def register(
        self, modules: Collection[str], contracts: Sequence[Contract], *, alone: bool, by: Actor | None = None
    ) -> list[str]:
        await self._pool.opened()
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> list[str]:
            known = {row[0]: to_contract(row) for row in await connection.rows(sql.contract_all)}
            served_at = {row[1]: row[6] for row in await connection.rows(sql.queue_all)}
            for contract in contracts:
                was = known.get(contract.id)
                given = ContractInput(contract, headers=header_values(contract))
                await _put(connection, given, keep=was is None or not was.retired, now_ms=now_ms)
            gone = retirable(known.values(), modules, contracts, served_at, None if alone else now_ms)
            for contract in gone:
                await connection.run(sql.contract_rewrite, contract_text(contract), now_ms, contract.id)
                await connection.run(sql.queue_park, True, contract.id)
            changed = [one for one in contracts if one.id not in known or not is_same(known[one.id], one)]
            retired = [one.id for one in gone]
            await _changed_many(connection, by, now_ms, "contracts.register", changed, retired)
            return [contract.id for contract in gone]

        retired = await self._pool.run(work, repeatable=True)
        self._changed("contracts")
        return retired

    async def with_private_keys(self) -> list[str]:
        return [row[0] for row in await self._pool.rows(sql.secret_private_keys)]

    async def adopt(self, digest: str, registered: Sequence[ContractInput], *, by: Actor | None = None) -> bool:
        await self._pool.opened()
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> bool:
            if not await connection.run(sql.config_digest_set, digest):
                return False
            changed = {given.contract.id: given for given in registered}
            removed: list[str] = []
            for id, text, _, source, _ in await connection.rows(sql.contract_all):
                if source == "config" and id not in changed:
                    await _remove(connection, id, now_ms)
                    removed.append(id)
                elif source == "config" and await _is_same(connection, changed[id], text):
                    del changed[id]  # unchanged: leave it as it is, also if it is disabled
            for given in changed.values():
                await _put(connection, given, False, now_ms)
            put = [given.contract for given in changed.values()]
            await _changed_many(connection, by, now_ms, "contracts.configure", put, removed, digest=digest)
            return True

        adopted = await self._pool.run(work)
        if adopted:
            self._changed("contracts")
        return adopted

    async def digest(self) -> str | None:
        rows = await self._pool.rows(sql.config_digest)
        return str(rows[0][0]) if rows else None

    async def get(self, id: str) -> Contract | None:
        rows = await self._pool.rows(sql.contract_get, id)
        return to_contract(rows[0]) if rows else None

    async def all(self, inactive: bool = False) -> list[Contract]:
        rows = await self._pool.rows(sql.contract_all)
        return [contract for contract in self._cache.read(rows) if inactive or contract.active]

    async def remove(self, id: str, *, by: Actor | None = None) -> bool:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> bool:
            if not await _remove(connection, id, now_ms):
                return False
            await _changed(connection, by, now_ms, "contract.remove", contract=id)
            return True

        removed = await self._pool.run(work)
        self._changed("contracts")
        return removed

    async def set_active(self, id: str, active: bool, *, by: Actor | None = None) -> bool:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> bool:
            if not await connection.run(sql.contract_activate, active, now_ms, id):
                return False
            await connection.run(sql.queue_park, not active, id)
            await _changed(connection, by, now_ms, "contract.enable" if active else "contract.disable", contract=id)
            return True

        done = await self._pool.run(work)
        self._changed("contracts")
        self._changed("deliveries")
        return done

    async def retire(self, id: str, *, by: Actor | None = None) -> bool:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> bool:
            if not await connection.run(sql.contract_activate, False, now_ms, id):
                return False
            await _changed(connection, by, now_ms, "contract.expire", contract=id)
            return True

        done = await self._pool.run(work)
        self._changed("contracts")
        return done

    async def rotate(self, id: str, secret: str, overlap_ms: int, *, by: Actor | None = None) -> bool:
        await self._pool.opened()
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> bool:
            if not await connection.run(sql.contract_touch, now_ms, id):
                return False
            await connection.run(sql.secret_outdate, now_ms + overlap_ms, id)
            await connection.run(sql.secret_forget, now_ms, id)
            await connection.run(sql.secret_add, id, secret, now_ms)
            await _changed(connection, by, now_ms, "contract.rotate", contract=id)
            return True

        done = await self._pool.run(work, repeatable=True)
        self._changed("contracts")
        return done

    async def private(self, id: str) -> ContractSecrets:
        now_ms = self._clock.now_ms()
        return await self._pool.run(lambda connection: _private(connection, id, now_ms), durable=False, repeatable=True)

    async def signing(self) -> frozenset[str]:
        return frozenset(row[0] for row in await self._pool.rows(sql.secret_owners, self._clock.now_ms()))

    async def version(self) -> int:
        return int(await self._pool.value(sql.contract_version))

    async def changed(self, since: int) -> list[ContractChange]:
        return [to_contract_change(row) for row in await self._pool.rows(sql.contract_changed, since)]

    async def queues(self) -> list[QueueRow]:
        return [to_queue_row(row) for row in await self._pool.rows(sql.queue_all)]


async def _changed(connection: PooledConnection, by: Actor | None, now_ms: int, action: str, **details: Json) -> None:
    """Count a change of the contracts, and write its receipt. The count orders receipts of several processes."""
    await connection.run(sql.contract_bump)
    version = int(await connection.value(sql.contract_version))
    await write_action(connection, by, now_ms, action, **details, version=version)


async def _changed_many(
    connection: PooledConnection,
    by: Actor | None,
    now_ms: int,
    action: str,
    put: Sequence[Contract],
    gone: Sequence[str],
    **details: Json,
) -> None:
    await connection.run(sql.contract_bump)
    if by is None or not (put or gone or details):
        return
    digests = {contract.id: contract_digest(contract) for contract in put}
    version = int(await connection.value(sql.contract_version))
    lines = contract_lines(action, now_ms, by.name, digests, gone, **details, version=version)
    await write_lines(connection, by.chain, now_ms, lines)


async def _put(connection: PooledConnection, registered: ContractInput, keep: bool, now_ms: int) -> bool:
    """Store a contract. Returns whether it is active."""
    contract, secret, headers = registered
    known = await connection.rows(sql.contract_get, contract.id) if keep else []
    active = bool(known[0][2]) if known else contract.active
    created = known[0][4] if known else contract.created_at_ms or now_ms
    await connection.run(
        sql.contract_put, contract.id, contract_text(contract), active, contract.source, created, now_ms
    )
    if not keep or secret is not None:
        await connection.run(sql.secret_clear, contract.id)
    if secret is not None:
        await connection.run(sql.secret_add, contract.id, secret, now_ms)
    if not keep or headers is not None:
        await connection.run(sql.header_clear, contract.id)
    if headers:
        await connection.run(sql.header_add, contract.id, list(headers), list(headers.values()))
    address = contract.address
    await connection.run(sql.queue_put, contract.id, address.text, address.kind, not active, now_ms)
    return active


async def _remove(connection: PooledConnection, id: str, now_ms: int) -> bool:
    if not await connection.run(sql.contract_remove, now_ms, id):
        return False
    await connection.run(sql.secret_clear, id)
    await connection.run(sql.header_clear, id)
    await connection.run(sql.contract_hour_forget, id)
    await connection.run(sql.queue_park, True, id)
    return True


async def _is_same(connection: PooledConnection, registered: ContractInput, text: str) -> bool:
    """Whether the stored contract, secret and headers are the same as the given ones."""
    private = await _private(connection, registered.contract.id, 0)
    return (
        text == contract_text(registered.contract)
        and private.secrets[:1] == (() if registered.secret is None else (registered.secret,))
        and private.headers == (registered.headers or {})
    )


async def _private(connection: PooledConnection, id: str, now_ms: int) -> ContractSecrets:
    secrets = await connection.rows(sql.secret_all, id, now_ms)
    return to_private(secrets, await connection.rows(sql.header_all, id))

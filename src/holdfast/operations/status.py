"""Verbs of care: status, pause and resume, prune, backup, receipts, tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import Any

from holdfast.domain.address import parse_address, without_tokens
from holdfast.domain.errors import BadInput, NotFound
from holdfast.domain.event import check_name
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.text import short_repr
from holdfast.home import shown_url
from holdfast.ledger.verifier import verify_receipts
from holdfast.operations.answers import LIMIT_DEFAULT, check_limit, link_shape, token_shape, when
from holdfast.ports import Chance, Clock
from holdfast.store.base import PAGE_MAX, Retention, Store
from holdfast.version import __version__

SCOPES = ("read", "operate", "admin")
PRUNE_MAX = 100_000


class CareVerbs:
    def __init__(
        self,
        store: Store,
        retention: Retention,
        clock: Clock,
        health: Callable[[], dict[str, str]],
        spool_depth: Callable[[], int],
        warnings: Callable[[], list[str]] = list,
        hooks: Callable[[], dict[str, int]] = dict,
        faults: Callable[[], Mapping[str, str]] = dict,
        find_faults: Callable[[], Awaitable[Mapping[str, str]]] | None = None,
    ) -> None:
        self._faults, self._find_faults = faults, find_faults or _no_faults
        self._store, self._retention, self._clock = store, retention, clock
        self._health, self._spool_depth, self._warnings, self._hooks = health, spool_depth, warnings, hooks
        self._started_ms = clock.now_ms()

    async def status(self) -> dict[str, Any]:
        """What is true right now. What cannot be known is null, never 0."""
        figures = await self._store.operator.figures()
        now_ms = self._clock.now_ms()
        oldest = figures.pop("oldest_pending_ms")
        next_due = figures.pop("next_due_ms")
        duties, paused = self._health(), await self._store.operator.pauses()
        refusal = self._store.care.refusal()
        faults = {**self._faults(), **await self._find_faults()}
        hidden = [f"{len(paused) - PAGE_MAX:,} more are paused than are listed"] if len(paused) > PAGE_MAX else []
        return {
            "version": __version__,
            "store": shown_url(self._store.url),
            "healthy": refusal is None and all(state == "ok" for state in duties.values()),
            "not_accepting": refusal,
            "uptime_seconds": round((now_ms - self._started_ms) / 1000, 1),
            **figures,
            "spooled": self._spool_depth(),
            "hooks": self._hooks(),
            "oldest_pending_seconds": None if oldest is None else max(0, (now_ms - oldest) // 1000),
            "next_due_at": when(next_due),
            "paused": [{"scope": scope, "name": without_tokens(name)} for scope, name, _ in paused[:PAGE_MAX]],
            "misconfigured": [{"contract_id": id, "why": why} for id, why in islice(faults.items(), PAGE_MAX)],
            "breakers": [without_tokens(gate.address) for gate in await self._store.gates.open()],
            "duties": duties,
            "notes": [*self._warnings(), *self._store.care.notes(), *hidden],
        }

    async def pause(self, scope: str, name: str) -> dict[str, Any]:
        """Hold a contract, an address or a lane. What is under way ends; what waits, waits."""
        await self._check_pause(scope, name)
        changed = await self._store.operator.pause(scope, name)
        return {"scope": scope, "name": without_tokens(name), "paused": True, "changed": changed}

    async def resume(self, scope: str, name: str) -> dict[str, Any]:
        await self._check_pause(scope, name, known=False)
        changed = await self._store.operator.resume(scope, name)
        return {"scope": scope, "name": without_tokens(name), "paused": False, "changed": changed}

    async def prune(self) -> dict[str, int]:
        """Remove what is past its retention now instead of within the hour."""
        return await self._store.care.prune(self._retention, PRUNE_MAX)

    async def _check_pause(self, scope: str, name: str, known: bool = True) -> None:
        if scope not in ("contract", "address", "lane"):
            raise BadInput(f"pause and resume take a contract, an address or a lane, not {short_repr(scope)}")
        check_name(name, scope)
        if scope == "address":
            parse_address(name)
        if scope == "contract" and known and await self._store.contracts.get(name) is None:
            raise NotFound(f"there is no contract {short_repr(name)}")


async def _no_faults() -> Mapping[str, str]:
    return {}


class ReceiptVerbs:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def verify(self) -> dict[str, Any]:
        return await verify_receipts(self._store.receipts)

    async def find(
        self, *, chain: str | None = None, after: str | None = None, limit: int = LIMIT_DEFAULT
    ) -> dict[str, Any]:
        """In order, chain by chain."""
        start_chain, _, seq = (after or ":0").rpartition(":")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 19):
            raise BadInput(f"after={short_repr(after)} is not a cursor: pass what `next` said on the page before")
        links = await self._store.receipts.links(chain, (start_chain, int(seq)), check_limit(limit))
        more = f"{links[-1].chain}:{links[-1].seq}" if len(links) == limit else None
        return {"items": [link_shape(link) for link in links], "next": more}


class TokenVerbs:
    def __init__(self, store: Store, clock: Clock, chance: Chance) -> None:
        self._store, self._clock, self._chance = store, clock, chance

    async def create(self, name: str, scope: str) -> dict[str, Any]:
        """A new token. Its text is in this answer and nowhere else: only its hash is kept."""
        if scope not in SCOPES:
            raise BadInput(f"scope {short_repr(scope)} is unknown; use one of {', '.join(SCOPES)}")
        check_name(name, "name")
        id = make_id("tok", self._clock.now_ms(), self._chance.entropy(ENTROPY_BYTES))
        text = "hf_" + self._chance.entropy(32).hex()
        await self._store.tokens.add(id, name, scope, token_hash(text))
        return {"id": id, "name": name, "scope": scope, "token": text}

    async def find(self, *, after: str | None = None, limit: int = PAGE_MAX) -> dict[str, Any]:
        """Tokens by id, behind the id `after`."""
        rows = await self._store.tokens.find(after or "", check_limit(limit))
        return {"items": [token_shape(row) for row in rows], "next": rows[-1].id if len(rows) == limit else None}

    async def revoke(self, id: str) -> dict[str, Any]:
        if not await self._store.tokens.revoke(id):
            raise NotFound(f"there is no token {short_repr(id)} that could be revoked")
        return {"revoked": id}

    async def scope_of(self, text: str) -> str | None:
        return await self._store.tokens.scope_of(token_hash(text))


def token_hash(text: str) -> str:
    return hashlib.sha256(b"holdfast.token\n" + text.encode("utf-8", "replace")).hexdigest()

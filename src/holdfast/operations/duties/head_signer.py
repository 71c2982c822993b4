"""Signs the heads of the receipt chains now and then, keeps them in a file, and appends them as events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from holdfast.domain import ed25519
from holdfast.domain.chain_check import Head
from holdfast.domain.event import iso_time, new_event
from holdfast.domain.extras import install_command
from holdfast.domain.json_value import Json
from holdfast.domain.signed_head import SignedHead, sign_head
from holdfast.ledger.signed_heads import KEY_BYTES, SignedHeads
from holdfast.ports import Chance, Clock, in_thread
from holdfast.store.roles.store import Store

SOURCE, TYPE = "holdfast", "receipts.head"
POLL_S = 60.0

log = logging.getLogger("holdfast.receipts")

Wants = Callable[[str, str, Mapping[str, Json], int], bool]


class HeadSigner:
    """`every`: by how many links a chain may grow, `every_s`: how long it may stay unsigned after a change.

    `wants`: whether a contract matches an event; without one, the heads are only in the file.
    """

    name = "receipt heads"

    def __init__(
        self, store: Store, files: SignedHeads, clock: Clock, chance: Chance, wants: Wants, every: int, every_s: float
    ) -> None:
        self._store, self._files, self._clock, self._chance, self._wants = store, files, clock, chance, wants
        self._every, self._every_ms = every, round(every_s * 1000)
        self._last: dict[str, SignedHead] | None = None
        self._began_ms = clock.now_ms()

    async def tick(self) -> float | None:
        if not ed25519.is_available():
            log.info("the heads of receipt chains are not signed; to sign them: %s", install_command("ed25519"))
            return None
        if self._last is None:
            kept = await in_thread("files", lambda: self._files.of(self._store.url))
            self._last = {head.chain: head for head in kept}
        now_ms = self._clock.now_ms()
        due = {
            chain: head
            for chain, head in (await self._store.receipts.heads()).items()
            if head.seq and self._is_due(chain, head.seq, now_ms)
        }
        if due:
            await self.sign(due)
        return POLL_S

    async def sign(self, heads: Mapping[str, Head]) -> list[SignedHead]:
        """Sign these heads now."""
        at = iso_time(self._clock.now_ms())
        signer = await in_thread("files", lambda: self._files.signer(self._chance.entropy(KEY_BYTES)))
        signed = [sign_head(self._store.url, chain, heads[chain], at, signer) for chain in sorted(heads)]
        await in_thread("files", lambda: self._files.add(signed))
        events = [
            new_event(TYPE, head.as_object(), source=SOURCE, properties={"chain": head.chain})
            for head in signed
            if self._wants(SOURCE, TYPE, {"chain": head.chain}, self._clock.now_ms())
        ]
        if events:
            await self._store.events.append(events)
        self._last = {**(self._last or {}), **{head.chain: head for head in signed}}
        return signed

    def _is_due(self, chain: str, seq: int, now_ms: int) -> bool:
        last = (self._last or {}).get(chain)
        if last is None:
            return seq >= self._every or now_ms - self._began_ms >= self._every_ms
        if seq == last.seq:
            return False
        at_ms = datetime.fromisoformat(last.at).timestamp() * 1000
        return seq - last.seq >= self._every or seq < last.seq or now_ms - at_ms >= self._every_ms

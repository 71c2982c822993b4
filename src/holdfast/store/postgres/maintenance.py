"""Maintenance on PostgreSQL: retention in batches, checks, hints. The server makes backups and checkpoints."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from holdfast.domain.errors import BadInput, StoreBusy
from holdfast.domain.receipt import id_ranges
from holdfast.ports import Clock
from holdfast.store.postgres.liveness import Liveness
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.receipts import write_action
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.maintenance import PRUNED, Replication, Retention, StoreSizes
from holdfast.store.roles.owners import Actor
from holdfast.store.rows import front_only

SPAN = 2000


class PostgresMaintenance:
    def __init__(self, pool: Pool, liveness: Liveness, clock: Clock) -> None:
        self._pool, self._liveness, self._clock = pool, liveness, clock

    async def prune(self, retention: Retention, limit: int, by: Actor) -> dict[str, int]:
        """Remove expired rows, in batches short enough not to block others; at most `limit` of each kind."""
        now_ms = self._clock.now_ms()
        ((first_d, last_d, first_e, last_e),) = await self._pool.rows(sql.prune_span)
        counts = dict.fromkeys(PRUNED, 0)
        for start in range(first_d - 1, last_d, SPAN):
            if left := limit - counts["deliveries"]:
                work = partial(_prune_deliveries, start, retention, now_ms, left, by)
                counts["deliveries"] += await self._pool.run(work)
        for start in range(first_e - 1, last_e, SPAN):
            if left := limit - counts["events"]:
                counts["events"] += await self._pool.run(partial(_prune_events, start, retention, now_ms, left))
        while left := limit - counts["dedup_keys"]:
            removed = await self._pool.run(partial(_prune_dedup, now_ms - retention.dedup_ms, min(left, SPAN)))
            counts["dedup_keys"] += removed
            if removed < SPAN:
                break
        cutoff, some = now_ms - retention.dedup_ms, min(limit, SPAN)
        counts["inbox"] = await self._pool.run(lambda connection: connection.run(sql.prune_inbox, cutoff, some))
        counts["lanes"] = await self._pool.run(lambda connection: connection.run(sql.prune_lanes, some))
        counts["sessions"] = await self._pool.run(partial(_prune_sessions, now_ms - retention.sessions_ms, some))
        counts["streams"] = await self._pool.run(partial(_prune_streams, retention, now_ms, some))
        unused = now_ms - retention.dead_ms
        counts["blobs"] = await self._pool.run(lambda connection: connection.run(sql.prune_blobs, unused, some))
        return counts

    async def backup(self, path: Path) -> None:
        raise BadInput(f"a PostgreSQL store is not copied to {path}: use pg_dump or the base backups of your server")

    async def checkpoint(self) -> bool:
        """Nothing to do: the server makes its own checkpoints."""
        return False

    async def about(self) -> str:
        ((version,),) = await self._pool.rows("SELECT current_setting('server_version')")
        return f"PostgreSQL {version}"

    async def check(self) -> list[str]:
        """Settings of the server under which a commit may be lost, and indexes that are not valid."""
        settings = dict(await self._pool.rows(sql.check_settings))
        faults = [
            f"{name} is off on this server: a power cut may lose or damage what was committed"
            for name in ("fsync", "full_page_writes")
            if settings.get(name) != "on"
        ]
        if settings.get("synchronous_commit") == "off":
            faults.append("synchronous_commit is off for this role: your own publish() may be lost in a power cut")
        broken = await self._pool.rows(sql.check_indexes)
        return faults + [f"the index {row[0]} is not valid; run: REINDEX INDEX {row[0]}" for row in broken]

    async def replication(self) -> Replication | None:
        rows = await self._pool.rows(sql.replication)
        wanted = bool(rows[0][0])
        standbys = [(name or "without a name", state) for _, pid, name, state in rows if pid is not None]
        synchronous = [name for name, state in standbys if state in ("sync", "quorum")]
        hidden = sum(1 for _, state in standbys if state is None and wanted)
        others = [name for name, state in standbys if state in ("async", "potential") or not (state or wanted)]
        return Replication(wanted, synchronous, others, hidden)

    async def sizes(self) -> StoreSizes:
        return StoreSizes(int(await self._pool.value(sql.store_size) or 0))

    def refusal(self) -> str | None:
        return None

    def notes(self) -> list[str]:
        return self._liveness.notes()

    def watched_files(self) -> list[Path]:
        return []

    def commits(self) -> int:
        return 0

    def changed_elsewhere(self) -> bool:
        """Whether a notification came since the last call. Only a hint: polling alone would be correct too."""
        return self._liveness.take_hint()


async def _prune_deliveries(
    start: int, retention: Retention, now_ms: int, limit: int, by: Actor, connection: PooledConnection
) -> int:
    cutoffs = (now_ms - retention.delivered_ms, now_ms - retention.inbound_ms, now_ms - retention.dead_ms)
    ids = [row[0] for row in await connection.rows(sql.prune_deliveries, start, SPAN, *cutoffs, limit)]
    if ids:
        await connection.run(sql.prune_attempts, ids)
        await connection.run(sql.prune_delivery, ids)
        await write_action(connection, by, now_ms, "prune", pruned_deliveries=id_ranges(ids))
    return len(ids)


async def _prune_events(start: int, retention: Retention, now_ms: int, limit: int, connection: PooledConnection) -> int:
    cutoff_ms = now_ms - retention.delivered_ms
    found = await connection.rows(sql.prune_events, start, SPAN, cutoff_ms, now_ms, limit, retention.archive)
    streams = sorted({stream for _, stream, _ in found if stream is not None})
    rows = front_only(found, dict(await connection.rows(sql.streams_first, streams)) if streams else {})
    if not rows:
        return 0
    gone = await connection.rows(sql.prune_event, [row[0] for row in rows])
    if len(gone) < len(rows):  # one was sent to the router again: the rest could leave a gap in a stream
        raise StoreBusy("an event was routed again while retention ran; it runs again later")
    unmatched = await connection.run(sql.prune_unmatched, [n for n, _ in gone])
    if emptied := sorted({stream for _, stream in gone if stream is not None}):
        await connection.run(sql.stream_emptied, now_ms, emptied)
    await connection.run(sql.counts_add, -len(gone), -unmatched, 0)
    return len(gone)


async def _prune_sessions(before_ms: int, limit: int, connection: PooledConnection) -> int:
    ids = [row[0] for row in await connection.rows(sql.sessions_old, before_ms, limit)]
    if not ids:
        return 0
    gone = [row[0] for row in await connection.rows(sql.prune_sessions, ids, before_ms)]
    await connection.run(sql.prune_bookmarks, gone)
    await connection.run(sql.prune_bindings, gone)
    return len(gone)


async def _prune_streams(retention: Retention, now_ms: int, limit: int, connection: PooledConnection) -> int:
    """Streams that were empty for long enough. A new one of the same name starts at 1, so nothing may refer to it."""
    before_ms = now_ms - retention.streams_kept_ms
    ids = [row[0] for row in await connection.rows(sql.streams_emptied, before_ms, limit)]
    if not ids:
        return 0
    await connection.run(sql.streams_refilled, ids)
    await connection.run(sql.streams_pinned, ids, now_ms)
    gone = await connection.run(sql.prune_streams, ids, before_ms)
    await connection.run(sql.counts_add, 0, 0, -gone)
    return gone


async def _prune_dedup(before_ms: int, limit: int, connection: PooledConnection) -> int:
    return await connection.run(sql.prune_dedup, before_ms, limit)

"""Whether the queue of a PostgreSQL store should move into pgmq, by the triggers of the configuration."""

from __future__ import annotations

from holdfast.config.promote_at import PromoteAt
from holdfast.operations.doctor.finding import Finding, ok, warn
from holdfast.store.roles.queue_admin import QueueKind, QueueLoad
from holdfast.store.roles.store import Store

MINUTES = 10


async def check_queue(store: Store, promote_at: PromoteAt | None, now_ms: int) -> list[Finding]:
    """Nothing to say where no trigger is set."""
    if promote_at is None or not any(promote_at):
        return []
    now = now_ms // 60_000
    minutes = [one for one in await store.history.since(now - MINUTES) if one.minute < now]
    per_second = max((one.accepted for one in minutes), default=0) / 60
    return [judge_queue(await store.queue_admin.kind(), await store.queue_admin.load(), per_second, promote_at)]


def judge_queue(kind: QueueKind, load: QueueLoad, per_second: float, promote_at: PromoteAt) -> Finding:
    """`per_second`: events accepted in the busiest of the last minutes."""
    id = "store.queue"
    if kind is QueueKind.PGMQ:
        return ok(id, f"the queue is in pgmq, with {load.depth:,} deliveries")
    reached = [
        f"{shown} (queue.promote_at.{name} is {limit:,})"
        for name, limit, value, shown in (
            ("depth", promote_at.depth, load.depth, f"{load.depth:,} deliveries are in the queue"),
            ("per_second", promote_at.per_second, per_second, f"{per_second:,.0f} events per second were accepted"),
            ("dead_rows", promote_at.dead_rows, load.dead_rows, f"{load.dead_rows:,} dead rows wait for vacuum"),
        )
        if limit and value >= limit
    ]
    if not reached:
        return ok(id, "the queue is a table of the store; no trigger to move it into pgmq is reached")
    todo = "run: holdfast db promote --to pgmq"
    return warn(id, f"the queue should move into pgmq: {'; '.join(reached)}", todo)

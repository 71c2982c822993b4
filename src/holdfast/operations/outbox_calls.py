"""The part of `Outbox` that calls operator verbs on its store. It imports nothing until it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    from holdfast.ledger.receipt_client import ReceiptFields
    from holdfast.operations.answers.contracts import RebuiltContract
    from holdfast.operations.answers.dead_letters import DeadLetter, DeadLetterCount, ReprocessedDeadLetters
    from holdfast.operations.answers.page import Page
    from holdfast.operations.answers.ping import PingedContract
    from holdfast.operations.answers.receipts import AppendedReceipt
    from holdfast.operations.answers.sessions import RebuiltSessions


class OutboxCalls:
    """Operator verbs. Each opens the store for its call; on an event loop, call them with `asyncio.to_thread`."""

    url: str

    def dlq_count(self, **filters: str) -> DeadLetterCount:
        """Count dead letters of every queue. Filters: reason, contract, address, stream, event."""
        from holdfast.operations.local_operations import call_operations

        return call_operations(self.url, lambda verbs: verbs.dead_letters.count(**filters))

    def dlq_inspect(self, limit: int = 50, *, after: str | None = None, **filters: str) -> Page[DeadLetter]:
        """Dead letters with payload and attempts, newest first. `after`: `next` of the previous page."""
        from holdfast.operations.local_operations import call_operations

        return call_operations(self.url, lambda verbs: verbs.dead_letters.inspect(after=after, limit=limit, **filters))

    def dlq_reprocess(self, msg_ids: Sequence[int]) -> ReprocessedDeadLetters:
        """Requeue dead letters by their ids, at most 1,000 in one call. Ids that are not dead are left out."""
        from holdfast.operations.local_operations import call_operations, local_actor

        return call_operations(
            self.url, lambda verbs: verbs.dead_letters.reprocess(ids=msg_ids, actor=local_actor()), write=True
        )

    def contract_ping(self, id: str, wait_seconds: float = 10) -> PingedContract:
        """Send a sample event through one contract and wait for its one attempt.

        Some process must deliver meanwhile. On the event loop of that process, call it with `asyncio.to_thread`.
        """
        from holdfast.operations.local_operations import call_operations, local_actor

        return call_operations(
            self.url, lambda verbs: verbs.contracts.ping(id, wait_seconds, actor=local_actor()), write=True
        )

    def contract_rebuild(self, id: str, *, after: str | None = None, dry_run: bool = False) -> RebuiltContract:
        """Create deliveries of stored events that a contract should have and does not have, 500 events in one call.

        `after`: `next` of the previous call; it is None at the end.
        """
        from holdfast.operations.local_operations import call_operations, local_actor

        return call_operations(
            self.url,
            lambda verbs: verbs.contracts.rebuild(id, after=after, dry_run=dry_run, actor=local_actor()),
            write=True,
        )

    def sessions_rebuild(self, ids: Sequence[str] | None = None, *, after: str | None = None) -> RebuiltSessions:
        """Rebuild agent sessions from their events: these, or all, 100 in one call. Some process must deliver.

        `after`: `next` of the previous call; it is None at the end.
        """
        from holdfast.operations.local_operations import call_operations, local_actor

        return call_operations(
            self.url,
            lambda verbs: verbs.sessions.rebuild(ids=ids, all=ids is None, after=after, actor=local_actor()),
            write=True,
        )

    def append_receipt(self, *, source_system: str, **fields: Unpack[ReceiptFields]) -> AppendedReceipt:
        """Append a receipt to the chain `substrate` of your database, in a transaction of its own.

        A second receipt of the same source is not stored: the answer is the first one, with `duplicate`.
        """
        from holdfast.operations.local_operations import append_receipt

        return append_receipt(self.url, {**fields, "source_system": source_system})

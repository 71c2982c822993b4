"""Holdfast: a durable outbox and delivery engine for agents and services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.version import __version__

__all__ = [
    "BadInput",
    "Conflict",
    "Contract",
    "Criterion",
    "DedupConflict",
    "Delivery",
    "Event",
    "HoldfastError",
    "HookEvent",
    "NativeSqlOutbox",
    "Outbox",
    "OutboxBackend",
    "OutboxRow",
    "PgmqOutbox",
    "PositionPruned",
    "Published",
    "ReceiptClient",
    "Reject",
    "RetryAfter",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreMissing",
    "StreamClosed",
    "__version__",
    "parse_address",
    "parse_senders",
]

if TYPE_CHECKING:
    from holdfast.backend import NativeSqlOutbox, OutboxBackend, OutboxRow, PgmqOutbox
    from holdfast.domain.address import parse_address
    from holdfast.domain.contract import Contract, Criterion
    from holdfast.domain.delivery import Delivery
    from holdfast.domain.errors import (
        BadInput,
        Conflict,
        DedupConflict,
        HoldfastError,
        PositionPruned,
        Reject,
        RetryAfter,
        StoreBusy,
        StoreError,
        StoreFull,
        StoreMissing,
        StreamClosed,
    )
    from holdfast.domain.event import Event
    from holdfast.domain.inbound_event import HookEvent
    from holdfast.domain.senders import parse_senders
    from holdfast.ingress.publish import Published
    from holdfast.ledger.receipt_client import ReceiptClient
    from holdfast.outbox import Outbox

_MODULES = {
    "BadInput": "holdfast.domain.errors",
    "Conflict": "holdfast.domain.errors",
    "Contract": "holdfast.domain.contract",
    "Criterion": "holdfast.domain.contract",
    "DedupConflict": "holdfast.domain.errors",
    "Delivery": "holdfast.domain.delivery",
    "Event": "holdfast.domain.event",
    "HoldfastError": "holdfast.domain.errors",
    "HookEvent": "holdfast.domain.inbound_event",
    "NativeSqlOutbox": "holdfast.backend",
    "Outbox": "holdfast.outbox",
    "OutboxBackend": "holdfast.backend",
    "OutboxRow": "holdfast.backend",
    "PgmqOutbox": "holdfast.backend",
    "PositionPruned": "holdfast.domain.errors",
    "Published": "holdfast.ingress.publish",
    "ReceiptClient": "holdfast.ledger.receipt_client",
    "Reject": "holdfast.domain.errors",
    "RetryAfter": "holdfast.domain.errors",
    "StoreBusy": "holdfast.domain.errors",
    "StoreError": "holdfast.domain.errors",
    "StoreFull": "holdfast.domain.errors",
    "StoreMissing": "holdfast.domain.errors",
    "StreamClosed": "holdfast.domain.errors",
    "parse_address": "holdfast.domain.address",
    "parse_senders": "holdfast.domain.senders",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import holdfast` is fast."""
    if name not in _MODULES:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)

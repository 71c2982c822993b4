"""Holdfast: every message survives, arrives in order, and leaves proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["Contract", "Delivery", "Event", "HoldfastError", "Outbox", "Reject", "RetryAfter", "__version__"]

if TYPE_CHECKING:
    from holdfast.domain.contract import Contract
    from holdfast.domain.delivery import Delivery
    from holdfast.domain.errors import HoldfastError, Reject, RetryAfter
    from holdfast.domain.event import Event
    from holdfast.outbox import Outbox

_HOMES = {
    "Contract": "holdfast.domain.contract",
    "Delivery": "holdfast.domain.delivery",
    "Event": "holdfast.domain.event",
    "HoldfastError": "holdfast.domain.errors",
    "Outbox": "holdfast.outbox",
    "Reject": "holdfast.domain.errors",
    "RetryAfter": "holdfast.domain.errors",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import holdfast` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)

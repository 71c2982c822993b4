"""Ping: a sample event that goes through one contract alone, whatever its criteria, and is attempted once."""

from __future__ import annotations

PING_TYPE = "holdfast.ping"
PING_SOURCE = "holdfast"


def is_ping(source: str, type: str) -> bool:
    """Whether an event is a ping. Its property `contract` names the contract that it is for."""
    return type == PING_TYPE and source == PING_SOURCE

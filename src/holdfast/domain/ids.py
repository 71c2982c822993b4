"""Ids that sort by time: a prefix, 12 hex digits of UTC milliseconds, 20 of chance.

Hex because every database can build the same id in one expression, so that plain SQL callers need no library.
"""

from __future__ import annotations

ENTROPY_BYTES = 10


def make_id(prefix: str, now_ms: int, entropy: bytes) -> str:
    """
    >>> make_id("evt", 1_700_000_000_000, bytes(10))
    'evt_018bcfe5680000000000000000000000'
    """
    if len(entropy) != ENTROPY_BYTES:
        raise ValueError(f"an id needs {ENTROPY_BYTES} bytes of chance, not {len(entropy)}")
    return f"{prefix}_{now_ms:012x}{entropy.hex()}"

"""Ids that sort by time: a prefix, 12 hex digits of UTC milliseconds, 20 random hex digits.

Hex, because every database can build the same id in one expression, so plain SQL needs no library.
"""

from __future__ import annotations

ENTROPY_BYTES = 10


def make_id(prefix: str, now_ms: int, entropy: bytes) -> str:
    """
    >>> make_id("evt", 1_700_000_000_000, bytes(10))
    'evt_018bcfe5680000000000000000000000'
    """
    if len(entropy) != ENTROPY_BYTES:
        raise ValueError(f"an id needs {ENTROPY_BYTES} random bytes, not {len(entropy)}")
    return f"{prefix}_{now_ms:012x}{entropy.hex()}"


def make_ids(prefix: str, now_ms: int, entropy: bytes) -> list[str]:
    """One id for each `ENTROPY_BYTES` of entropy, all with the same time.

    >>> make_ids("evt", 1_700_000_000_000, bytes(20))[1] == make_id("evt", 1_700_000_000_000, bytes(10))
    True
    """
    if len(entropy) % ENTROPY_BYTES:
        raise ValueError(f"each id needs {ENTROPY_BYTES} random bytes; {len(entropy)} is not a multiple")
    head, digits, step = f"{prefix}_{now_ms:012x}", entropy.hex(), 2 * ENTROPY_BYTES
    return [head + digits[at : at + step] for at in range(0, len(digits), step)]

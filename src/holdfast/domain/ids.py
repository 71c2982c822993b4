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


def make_ids(prefix: str, now_ms: int, entropy: bytes) -> list[str]:
    """As many as there is chance for, of one moment.

    >>> make_ids("evt", 1_700_000_000_000, bytes(20))[1] == make_id("evt", 1_700_000_000_000, bytes(10))
    True
    """
    if len(entropy) % ENTROPY_BYTES:
        raise ValueError(f"each id needs {ENTROPY_BYTES} bytes of chance, so {len(entropy)} are not for whole ids")
    head, chance, step = f"{prefix}_{now_ms:012x}", entropy.hex(), 2 * ENTROPY_BYTES
    return [head + chance[at : at + step] for at in range(0, len(chance), step)]

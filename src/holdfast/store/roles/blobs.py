"""Blobs: files that come with messages, kept by the digest of their bytes."""

from __future__ import annotations

from typing import Protocol


class Blobs(Protocol):
    """Bytes by their SHA-256 in hex. Retention removes those that were not stored again for a while."""

    async def put(self, sha256: str, data: bytes) -> bool:
        """Store bytes durably. False: they were stored already, and are kept from now on for the full time."""

    async def get(self, sha256: str) -> bytes | None:
        """The bytes with this digest."""

    async def has(self, sha256: str) -> bool:
        """Whether there are bytes with this digest."""

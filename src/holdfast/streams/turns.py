"""One call at a time for each stream: a replay and the publisher may want the same stream at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class StreamLocks:
    """A lock for each stream that is in use, and none for the others."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def of(self, stream: str) -> AsyncIterator[None]:
        lock, users = self._locks.get(stream, (asyncio.Lock(), 0))
        self._locks[stream] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[stream]
            if users == 1:
                del self._locks[stream]
            else:
                self._locks[stream] = (lock, users - 1)

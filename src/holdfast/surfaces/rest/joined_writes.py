"""Sends head and body of a response in one packet.

Uvicorn writes them one after the other. Two writes are two system calls and two packets; one of each is enough.
"""

from __future__ import annotations

import asyncio
from typing import Any


class JoinedWrites:
    """A transport that joins the writes of one step of the event loop.

    `flush` is called when a response is complete. Data written before a pause, such as the head of an event stream,
    is sent at the end of the step.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []
        self._scheduled = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._parts.append(data)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._step_ended)

    def flush(self) -> None:
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            self._transport.write(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def _step_ended(self) -> None:
        self._scheduled = False
        self.flush()

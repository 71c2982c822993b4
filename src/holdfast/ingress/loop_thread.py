"""An event loop in a thread of its own, for callers on other threads, on other loops, or without a loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class LoopThread:
    """Starts at once. `stop` it when no work is left; the thread never keeps the process alive."""

    def __init__(self, name: str) -> None:
        self._process_id = os.getpid()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    @property
    def is_alive(self) -> bool:
        """False in a child process: a fork copies the objects but not the thread."""
        return self._process_id == os.getpid()

    def submit(self, work: Coroutine[object, object, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Block until the work is done."""
        return self.submit(work).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _work(self) -> None:
        self._loop.run_forever()
        self._loop.close()

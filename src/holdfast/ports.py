"""What the house asks of the world outside: time, chance, threads, and a place to crash in tests.

Everything that is not a pure function of its arguments comes in through one of these, so that a test owns time,
order and failure.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from holdfast.domain.contract import Contract

T = TypeVar("T")
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", None) or time.CLOCK_MONOTONIC


class Clock(Protocol):
    """Wall time for due times and display; boot time, which no one can set, for leases."""

    @property
    def boot_id(self) -> str: ...
    def now_ms(self) -> int: ...
    def boot_ms(self) -> int: ...


class Chance(Protocol):
    def entropy(self, count: int) -> bytes: ...
    def fraction(self) -> float: ...
    def token(self) -> int: ...


class Executor(Protocol):
    """Where blocking work runs. `inline` says that it runs in the caller, so nothing overlaps it."""

    inline: bool

    def submit(self, work: Callable[[], T]) -> Awaitable[T]: ...
    def close(self) -> None: ...


class ContractList(Protocol):
    """The contracts that an application registers in code."""

    def all(self) -> list[Contract]: ...


@runtime_checkable
class Application(Protocol):
    """What the daemon knows of an application: its `Outbox`."""

    @property
    def url(self) -> str: ...
    @property
    def handlers(self) -> Mapping[str, Callable[..., Any]]: ...
    @property
    def normalizers(self) -> Mapping[str, Callable[..., Any]]: ...
    @property
    def contracts(self) -> ContractList: ...
    def modules(self) -> frozenset[str]: ...


Probe = Callable[[str], None]
"""Called at the named points where a crash would matter most; tests make it crash."""


def no_probe(point: str) -> None:
    """The probe of ordinary life: nothing happens."""


class SystemClock:
    """The machine's clocks."""

    @property
    def boot_id(self) -> str:
        return _boot_id()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        return boot_ns() // 1_000_000


class _RandomBytes:
    """The system's random bytes, read in blocks: each read gives other threads the interpreter's lock."""

    BLOCK = 4096

    def __init__(self) -> None:
        self.reset()
        os.register_at_fork(after_in_child=self.reset)  # two processes must not use the same bytes

    def reset(self) -> None:
        self._block, self._at = b"", 0
        self._lock = threading.Lock()

    def take(self, count: int) -> bytes:
        if count > self.BLOCK:
            return os.urandom(count)
        with self._lock:
            if self._at + count > len(self._block):
                self._block, self._at = os.urandom(self.BLOCK), 0
            self._at += count
            return self._block[self._at - count : self._at]


_random_bytes = _RandomBytes()


class SystemChance:
    """The machine's randomness."""

    def entropy(self, count: int) -> bytes:
        return _random_bytes.take(count)

    def fraction(self) -> float:
        return int.from_bytes(_random_bytes.take(6), "big") / (1 << 48)

    def token(self) -> int:
        return int.from_bytes(_random_bytes.take(8), "big") >> 1 or 1


class Threads:
    """Blocking work in threads of its own, away from the event loop."""

    inline = False

    def __init__(self, name: str, workers: int = 1) -> None:
        self._name, self._workers = name, workers
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[[], T]) -> Awaitable[T]:
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix=self._name)
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None


_POOLS = {"dns": Threads("holdfast:dns", 16), "files": Threads("holdfast:files", 4)}


def in_thread(pool: str, work: Callable[[], T]) -> Awaitable[T]:
    """Blocking work of the process itself, in a pool of its own.

    The event loop's default pool is left to the application: handlers that never return may fill it.
    """
    return _POOLS[pool].submit(work)


class Inline:
    """Blocking work in the caller: no threads, so a test decides every interleaving."""

    inline = True

    async def submit(self, work: Callable[[], T]) -> T:
        return work()

    def close(self) -> None:
        pass


def boot_ns() -> int:
    """Nanoseconds since boot, counting sleep where the system can."""
    return time.clock_gettime_ns(_SINCE_BOOT)


@lru_cache(maxsize=1)
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    except OSError:
        # Without one from the kernel, the moment of boot to the nearest ten seconds names the boot well enough.
        return f"boot{round((time.time() - boot_ns() / 1e9) / 10)}"

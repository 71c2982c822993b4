"""What the package needs from outside: time, randomness, threads, an application, counters, crash points for tests.

Everything that is not a pure function of its arguments comes in through one of these, so that tests control time,
order and failure.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from holdfast.domain.contract import Contract
    from holdfast.domain.delivery import Settlement
    from holdfast.domain.event import Event, NewEvent
    from holdfast.domain.inbound_event import HookEvent

T = TypeVar("T")
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", None) or time.CLOCK_MONOTONIC


class Clock(Protocol):
    """Wall time for due times and display; time since boot, which cannot be changed, for leases."""

    @property
    def boot_id(self) -> str: ...
    def now_ms(self) -> int: ...
    def boot_ms(self) -> int: ...


class Chance(Protocol):
    """A source of randomness: bytes for ids, fractions from 0 to 1 for jitter, integers for lease tokens."""

    def entropy(self, count: int) -> bytes: ...
    def fraction(self) -> float: ...
    def token(self) -> int: ...


class Executor(Protocol):
    """Runs blocking work. `inline`: it runs in the caller, so nothing overlaps it."""

    inline: bool

    def submit(self, work: Callable[[], T]) -> Awaitable[T]: ...
    def close(self) -> None: ...


class ContractList(Protocol):
    """The contracts that an application registers in code."""

    def all(self) -> list[Contract]: ...


@runtime_checkable
class Application(Protocol):
    """The part of an application's `Outbox` that the daemon uses."""

    @property
    def url(self) -> str: ...
    @property
    def handlers(self) -> Mapping[str, Callable[..., object]]: ...
    @property
    def normalizers(self) -> Mapping[str, Callable[..., HookEvent | Sequence[HookEvent]]]: ...
    @property
    def contracts(self) -> ContractList: ...
    def modules(self) -> frozenset[str]: ...


class Counters(Protocol):
    """Counts what a working process does, for `/metrics`. Called once for each batch, never for each event."""

    def accepted(self, way: str, count: int) -> None:
        """Events were stored. `way`: how they came in."""

    def routed(self, events: int, deliveries: int, unmatched: int) -> None:
        """Events were routed: how many, into how many deliveries, and how many of them matched no contract."""

    def settled(self, settlements: Sequence[Settlement], lost: Set[int], now_ms: int) -> None:
        """Attempts ended. Those with an id in `lost` had lost their lease, and were not applied."""

    def ended(self, state: str, reason: str, count: int) -> None:
        """Deliveries ended without an attempt."""

    def leases(self, lost: int = 0, reclaimed: int = 0) -> None:
        """Leases were lost to another process, or freed after the death of one."""


class NoCounters:
    """Counts nothing."""

    def accepted(self, way: str, count: int) -> None: ...
    def routed(self, events: int, deliveries: int, unmatched: int) -> None: ...
    def settled(self, settlements: Sequence[Settlement], lost: Set[int], now_ms: int) -> None: ...
    def ended(self, state: str, reason: str, count: int) -> None: ...
    def leases(self, lost: int = 0, reclaimed: int = 0) -> None: ...


NO_COUNTERS = NoCounters()


class Tracing(Protocol):
    """Makes spans for events that carry a trace context. Called once for each batch; times are nanoseconds."""

    def accepted(self, event: NewEvent, id: str, started_ns: int) -> None: ...
    def routed(self, events: Sequence[Event], started_ns: int) -> None: ...
    def settled(self, settlements: Sequence[Settlement], lost: Set[int], now_ms: int) -> None: ...


class NoTracing:
    """Makes no spans."""

    def accepted(self, event: NewEvent, id: str, started_ns: int) -> None: ...
    def routed(self, events: Sequence[Event], started_ns: int) -> None: ...
    def settled(self, settlements: Sequence[Settlement], lost: Set[int], now_ms: int) -> None: ...


NO_TRACING = NoTracing()

Probe = Callable[[str], None]
"""Called at named points where a crash would matter most; tests crash the process there."""


def no_probe(point: str) -> None:
    """The probe in production: does nothing."""


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
    """The system's random bytes, read in blocks, since each read releases the GIL to other threads."""

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
    """Runs blocking work in its own threads, off the event loop."""

    inline = False

    def __init__(self, name: str, workers: int = 1) -> None:
        self._name, self._workers = name, workers
        self._pool: ThreadPoolExecutor | None = None
        self._process_id = 0

    def submit(self, work: Callable[[], T]) -> Awaitable[T]:
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        if self._pool is None or self._process_id != os.getpid():  # a fork does not copy the threads
            self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix=self._name)
            self._process_id = os.getpid()
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None


_POOLS = {"dns": Threads("holdfast:dns", 16), "files": Threads("holdfast:files", 4)}


def in_thread(pool: str, work: Callable[[], T]) -> Awaitable[T]:
    """Run blocking work of the daemon in a pool of its own.

    The event loop's default pool is left to the application, whose handlers may block all its threads.
    """
    return _POOLS[pool].submit(work)


class Inline:
    """Runs blocking work in the caller, without threads, so that a test decides every interleaving."""

    inline = True

    async def submit(self, work: Callable[[], T]) -> T:
        return work()

    def close(self) -> None:
        pass


def boot_ns() -> int:
    """Nanoseconds since boot, including suspend where the system supports it."""
    return time.clock_gettime_ns(_SINCE_BOOT)


@lru_cache(maxsize=1)
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    except OSError:
        # Without a boot id from the kernel, the time of boot rounded to ten seconds identifies the boot.
        return f"boot{round((time.time() - boot_ns() / 1e9) / 10)}"

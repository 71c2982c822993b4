"""The cost of an idle daemon: CPU time, wake-ups and memory, as counted by the Linux kernel."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.daemon import Daemon
from benchmarks.latency import fresh
from benchmarks.measure import Results
from benchmarks.orders import Failed
from benchmarks.server import Server
from benchmarks.sizes import Sizes

SETTLE_S = 12.0
"""Wait this long, until deferred start-up work is done and its threads have ended."""


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    for store in ("sqlite", *(["postgres"] if server else [])):
        with fresh(store, folder, server) as url, Daemon(folder, url, app=False) as daemon:
            daemon.start()
            daemon.wait_settled()
            time.sleep(min(SETTLE_S, sizes.idle_s))
            before_s, before_n, began = _processor_s(daemon.pid), _switches(daemon.pid), time.monotonic()
            time.sleep(sizes.idle_s)
            passed_s = time.monotonic() - began
            results.add(f"idle.{store}.processor", 100 * (_processor_s(daemon.pid) - before_s) / passed_s, "%")
            results.add(f"idle.{store}.wake-ups", (_switches(daemon.pid) - before_n) / passed_s, "/s")
            results.add(f"idle.{store}.memory", _memory_mb(daemon.pid), "MB")


def _processor_s(pid: int) -> float:
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _switches(pid: int) -> int:
    """Voluntary context switches of all threads, that is the number of wake-ups."""
    texts = [_read(str(path / "status")) for path in Path(f"/proc/{pid}/task").iterdir()]
    return sum(_field(text, "voluntary_ctxt_switches") for text in texts)


def _memory_mb(pid: int) -> float:
    return _field(_read(f"/proc/{pid}/status"), "VmRSS") / 1000


def _field(text: str, name: str) -> int:
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name}:"))


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise Failed(f"the cost of a process can be read only on Linux: {error}") from None

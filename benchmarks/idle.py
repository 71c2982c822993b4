"""The cost of an idle daemon: CPU time, wake-ups and memory, as counted by the Linux kernel."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.daemon import Daemon
from benchmarks.latency import fresh
from benchmarks.measure import Results
from benchmarks.processes import cpu_s, memory_mb, wake_ups
from benchmarks.server import Server
from benchmarks.sizes import Sizes

SETTLE_S = 12.0
"""Wait this long, until deferred start-up work is done and its threads have ended."""


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    for store in ("sqlite", *(["postgres"] if server else [])):
        with fresh(store, folder, server) as url, Daemon(folder, url, app=None) as daemon:
            daemon.start()
            daemon.wait_settled()
            time.sleep(min(SETTLE_S, sizes.idle_s))
            before_s, before_n, began = cpu_s(daemon.pid), wake_ups(daemon.pid), time.monotonic()
            time.sleep(sizes.idle_s)
            passed_s = time.monotonic() - began
            results.add(f"idle.{store}.processor", 100 * (cpu_s(daemon.pid) - before_s) / passed_s, "%")
            results.add(f"idle.{store}.wake-ups", (wake_ups(daemon.pid) - before_n) / passed_s, "/s")
            results.add(f"idle.{store}.memory", memory_mb(daemon.pid), "MB")

"""What the Linux kernel says about a process: CPU time, memory, descriptors, wake-ups."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.orders import Failed


def cpu_s(pid: int) -> float:
    """CPU time of all its threads so far, without its children."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wake_ups(pid: int) -> int:
    """Voluntary context switches of all threads."""
    texts = [_read(str(path / "status")) for path in Path(f"/proc/{pid}/task").iterdir()]
    return sum(_field(text, "voluntary_ctxt_switches") for text in texts)


def memory_mb(pid: int) -> float:
    """Resident memory."""
    return _field(_read(f"/proc/{pid}/status"), "VmRSS") / 1000


def descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError as error:
        raise Failed(f"the descriptors of a process can be counted only on Linux: {error}") from None


def _field(text: str, name: str) -> int:
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name}:"))


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise Failed(f"the cost of a process can be read only on Linux: {error}") from None

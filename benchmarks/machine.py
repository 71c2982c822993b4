"""The environment of a run: machine, versions, commit and date."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.orders import ROOT
from benchmarks.sizes import PEERS
from holdfast import __version__

IN_MEMORY = ("tmpfs", "ramfs")


def facts(folder: Path) -> dict[str, Any]:
    import apsw

    return {
        "holdfast": __version__,
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": _commit(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "file system": file_system(folder),
        "load before": round(os.getloadavg()[0], 2),
        "Python": platform.python_version(),
        "SQLite": apsw.sqlite_lib_version(),
        "packages": {name: _version(name) for name in ("apsw", "asyncpg", "psycopg", "huey", "persist-queue")},
        "peers": {peer: _locked(peer) for peer in PEERS},
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
    }


def _commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("rev-parse", "--short=12", "HEAD")
    changed = git("status", "--porcelain", "--", "src", "benchmarks", "requirements")
    return (commit or "unknown") + (" with changes" if changed else "")


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def disk() -> Path:
    """A folder for databases on a real disk: in memory a flush costs nothing, and the figures would be meaningless."""
    places = [Path(tempfile.gettempdir()), Path("/var/tmp"), ROOT]
    return next((place for place in places if place.is_dir() and file_system(place) not in IN_MEMORY), places[0])


def file_system(folder: Path) -> str:
    """The type of the file system of `folder`."""
    best, kind = "", "unknown"
    try:
        for line in Path("/proc/mounts").read_text().splitlines():
            _, place, found, *_ = line.split()
            if str(folder.resolve()).startswith(place) and len(place) >= len(best):
                best, kind = place, found
    except OSError:
        pass
    return kind


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _locked(peer: str) -> str:
    for line in (ROOT / "requirements" / f"bench-{peer}.lock").read_text().splitlines():
        if line.partition("==")[0].partition("[")[0].strip() == peer:  # the name may have extras
            return line.partition("==")[2].split()[0]
    return "unknown"

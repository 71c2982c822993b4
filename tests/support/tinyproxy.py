"""A real tinyproxy on loopback.

If it is not installed, the Debian package is downloaded once into a cache folder; nothing is installed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

READY_S = 60.0
_CONFIG = """
Listen 127.0.0.1
Port {port}
Timeout 60
MaxClients 20
LogFile "{folder}/log"
LogLevel Connect
BasicAuth {user} {password}
"""


def program() -> Path | None:
    """The path of the program; None if it is not available."""
    if found := shutil.which("tinyproxy", path=os.environ.get("PATH", "") + ":/usr/sbin"):
        return Path(found)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast-tests" / "tinyproxy"
    if not (cache / "usr/bin/tinyproxy").exists():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            _fetch(cache)
    return cache / "usr/bin/tinyproxy" if (cache / "usr/bin/tinyproxy").exists() else None


def _fetch(cache: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="hf-deb-") as folder:
        fetch = ["apt-get", "download", "tinyproxy-bin"]
        subprocess.run(fetch, cwd=folder, check=True, capture_output=True, timeout=120)
        for package in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, f"{folder}/root"], check=True, capture_output=True, timeout=60)
        cache.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(f"{folder}/root", cache, dirs_exist_ok=True)


@contextlib.contextmanager
def running(binary: Path, user: str, password: str) -> Iterator[tuple[int, Path]]:
    """Run tinyproxy. Yields its port and its log."""
    with tempfile.TemporaryDirectory(prefix="hf-tinyproxy-") as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
        free.close()
        config = Path(folder) / "tinyproxy.conf"
        config.write_text(_CONFIG.format(port=port, folder=folder, user=user, password=password))
        process = subprocess.Popen([binary, "-d", "-c", config], stdout=subprocess.DEVNULL)
        try:
            _wait(port, process)
            yield port, Path(folder) / "log"
        finally:
            process.terminate()
            process.wait(READY_S)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None or time.monotonic() > ends:
            raise RuntimeError("tinyproxy did not start")
        time.sleep(0.02)

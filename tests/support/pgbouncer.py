"""A real PgBouncer in transaction mode in front of a test server.

If it is not installed, the Debian package is downloaded once into a cache folder; nothing is installed. If that fails,
the tests fail with the reason.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from holdfast.proof.kills.server import as_nobody, give_to_nobody
from postgres import Server

PACKAGES = ("pgbouncer", "libc-ares2", "libevent-2.1-7")
_CONFIG = """
[databases]
* = host={server} port=5432 user=postgres

[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 5432
auth_type = any
pool_mode = {mode}
default_pool_size = 20
min_pool_size = 4
max_client_conn = 200
server_round_robin = 1
logfile = {folder}/log
pidfile = {folder}/pid
"""


@lru_cache
def program() -> tuple[Path, Path | None]:
    """The program, and a folder with the libraries it needs."""
    if found := shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin"):
        return Path(found), None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast-tests" / "pgbouncer"
    if not (cache / "usr/sbin/pgbouncer").exists():
        _fetch(cache)
    return cache / "usr/sbin/pgbouncer", next((cache / "usr/lib").glob("*-linux-gnu"), None)


def _fetch(cache: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="hf-deb-") as folder:
        try:
            subprocess.run(
                ["apt-get", "download", *PACKAGES], cwd=folder, check=True, capture_output=True, text=True, timeout=120
            )
            for package in Path(folder).glob("*.deb"):
                subprocess.run(["dpkg", "-x", package, f"{folder}/root"], check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.SubprocessError) as error:
            reason = getattr(error, "stderr", None) or error
            pytest.fail(f"these tests need PgBouncer; install it, such as: apt-get install pgbouncer ({reason})", False)
        cache.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(f"{folder}/root", cache, dirs_exist_ok=True)


@contextlib.contextmanager
def pgbouncer(server: Server, mode: str = "transaction") -> Iterator[Path]:
    """Run PgBouncer. Yields the folder of its socket."""
    binary, libraries = program()
    folder = Path(tempfile.mkdtemp(prefix="hf-pgb-"))
    try:
        give_to_nobody(folder)
        shutil.copy(binary, folder / "pgbouncer")  # the cache folder may be readable only by its owner
        for library in () if libraries is None else libraries.glob("*.so*"):
            shutil.copy(library, folder / library.name)
        (folder / "ini").write_text(_CONFIG.format(server=server.folder, folder=folder, mode=mode))
        process = subprocess.Popen(
            [folder / "pgbouncer", "-q", folder / "ini"],
            env={"LD_LIBRARY_PATH": str(folder)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **as_nobody(),
        )
        try:
            _wait(folder, process)
            yield folder
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(folder: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not (folder / ".s.PGSQL.5432").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            reason = (folder / "log").read_text()[-500:] if (folder / "log").exists() else "it left no log"
            pytest.fail(f"PgBouncer did not start: {reason}", pytrace=False)
        time.sleep(0.02)

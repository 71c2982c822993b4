"""Where Holdfast keeps its things: one folder, readable by its owner alone."""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from holdfast.domain.errors import BadConfig

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 4653


@dataclass(frozen=True, slots=True)
class Home:
    """`HOLDFAST_HOME` and what lives in it."""

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
    def address_file(self) -> Path:
        """Where a running daemon writes its address, so that the commands find it on any port."""
        return self.root / "address"

    def make(self) -> None:
        """Create the folder for its owner alone, and refuse one that others may write to."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.spool.mkdir(mode=0o700, exist_ok=True)
        mode = self.root.stat().st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise BadConfig(f"{self.root} may be written by others; run: chmod 700 {self.root}")

    def read_token(self) -> str | None:
        """The administrator's token, or None before the first `holdfast up`."""
        return read_secret(self.token)


def find_home() -> Home:
    """`HOLDFAST_HOME`, or the platform's folder for state."""
    given = os.environ.get("HOLDFAST_HOME")
    if given:
        return Home(Path(given).expanduser().absolute())
    state = os.environ.get("XDG_STATE_HOME")
    return Home(Path(state) / "holdfast") if state and sys.platform != "darwin" else usual_home()


def usual_home() -> Home:
    """The platform's folder for state, where no variable names another."""
    if sys.platform == "darwin":
        return Home(Path.home() / "Library" / "Application Support" / "holdfast")
    return Home(Path.home() / ".local" / "state" / "holdfast")


def store_url(home: Home) -> str:
    """`HOLDFAST_STORE`, or the SQLite file in the home folder."""
    return os.environ.get("HOLDFAST_STORE") or f"sqlite:///{home.database}"


def shown_url(url: str) -> str:
    """A store's URL fit to be shown: without its password.

    >>> shown_url("postgresql://app:secret@db.example.com/shop?schema=holdfast")
    'postgresql://app:***@db.example.com/shop?schema=holdfast'
    """
    start, at, rest = url.rpartition("@")
    scheme, _, user = start.partition("://")
    if "password=" in rest:
        rest = re.sub(r"password=[^&]*", "password=***", rest)
    return f"{scheme}://{user.partition(':')[0]}:***@{rest}" if at and ":" in user else f"{start}{at}{rest}"


def read_secret(path: Path) -> str | None:
    """The text of a file that only its owner may read; anything looser is refused with the remedy."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if mode & 0o077:
        raise BadConfig(f"{path} may be read by others; run: chmod 600 {path} (and think about replacing it)")
    return path.read_text(encoding="utf-8").strip()


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner may read, complete or not at all."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)

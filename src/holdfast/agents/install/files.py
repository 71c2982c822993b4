"""Safe changes of other programs' files: read completely, replaced atomically, with a backup.

The new file has the same mode and owner. A symbolic link stays a link: its target is replaced. A limited number of
backups is kept next to the file. Anything unusual is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from holdfast.domain.errors import BadInput, Conflict
from holdfast.ingress.spool import sync_folder

FILE_MAX = 4 * 1024 * 1024
BACKUPS_MAX = 3
BOM = "\ufeff"

_SECRET = re.compile(
    r"""((?:key|token|secret|passw|auth|credential)[\w.-]*["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*')""", re.IGNORECASE
)


class Refused(BadInput):
    """The file was not changed."""


@dataclass(frozen=True, slots=True)
class Change:
    """The bytes of a file before and after a change; None: no file."""

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def is_none(self) -> bool:
        return self.before == self.after


def read(path: Path) -> bytes | None:
    """The bytes of a file; None if there is no file."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        if path.is_symlink():
            raise Refused(f"{path} is a link to {os.readlink(path)}, which does not exist; file not changed") from None
        return None
    except NotADirectoryError:
        raise Refused(f"{path.parent} is not a folder; file not changed") from None
    if not path.is_file():
        raise Refused(f"{path} is not a regular file; file not changed")
    if size > FILE_MAX:
        raise Refused(f"{path} is larger than {FILE_MAX:,} bytes; file not changed")
    return path.read_bytes()


def decode(path: Path, raw: bytes | None) -> str:
    try:
        return (raw or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(f"{path} is not text in UTF-8; file not changed") from None


def digest(raw: bytes | None) -> str | None:
    return None if raw is None else hashlib.sha256(raw).hexdigest()


def show_diff(change: Change) -> str:
    """The change as a unified diff. Values that look like secrets are masked."""
    before, after = ((raw or b"").decode("utf-8", "replace").splitlines() for raw in (change.before, change.after))
    old, new = (str(change.path) if raw is not None else "/dev/null" for raw in (change.before, change.after))
    lines = unified_diff(before, after, old, new, n=2, lineterm="")
    return "\n".join(_SECRET.sub(r'\1"***"', line) for line in lines)


def check(change: Change) -> None:
    """Refuse a change that cannot or should not be written, before any file is changed."""
    path = change.path
    if change.before is None:
        return
    mode = path.stat().st_mode
    if not mode & 0o222 or not os.access(path.resolve(), os.W_OK):
        raise Refused(f"{path} is read-only; allow writing (chmod u+w), or add the hooks where the file is made")


def apply(change: Change) -> tuple[Path | None, list[Path]]:
    """Make the change. Returns the path of the backup and the folders that were made."""
    check(change)
    made = _make_folders(change.path.parent)
    kept = None if change.before is None else _keep(change.path, change.before)
    try:
        if change.after is None:
            _unchanged(change)
            change.path.unlink()
            sync_folder(change.path.parent)
        else:
            _replace(change, change.after)
    except BaseException:
        if kept is not None:
            kept.unlink(missing_ok=True)
        raise
    return kept, made


def prune(path: Path, spared: Collection[Path], count: int = BACKUPS_MAX) -> None:
    """Remove the oldest backups of a file beyond `count`, but never those that are `spared`."""
    copies = sorted(path.parent.glob(f"{_escape(path.name)}.holdfast-*.bak"), key=lambda copy: copy.stat().st_mtime_ns)
    for copy in copies[: max(0, len(copies) - count)]:
        if copy not in spared:
            copy.unlink(missing_ok=True)


def _replace(change: Change, data: bytes) -> None:
    target = change.path.resolve()
    mode = stat.S_IMODE(target.stat().st_mode) if change.before is not None else 0o600
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".holdfast", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if change.before is not None:
                _copy_owner(target, name)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        _unchanged(change)
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    sync_folder(target.parent)


def _copy_owner(source: Path, name: str) -> None:
    """Copy owner, group and extended attributes of the file that is replaced."""
    owner, mine = source.stat(), os.stat(name)
    if (owner.st_uid, owner.st_gid) != (mine.st_uid, mine.st_gid):
        try:
            os.chown(name, owner.st_uid, owner.st_gid)
        except PermissionError:
            raise Refused(f"{source} belongs to another user; file not changed") from None
    shutil.copystat(source, name)
    os.utime(name)


def _unchanged(change: Change) -> None:
    """Check right before the change that no other program has written the file since it was read."""
    if read(change.path) != change.before:
        raise Conflict(f"{change.path} was changed by another program; run the command again")


def _keep(path: Path, raw: bytes) -> Path:
    """Make a backup next to the file, readable by its owner only, because such files hold secrets."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in range(1, 1000):
        copy = path.with_name(f"{path.name}.holdfast-{stamp}-{number}.bak")
        try:
            descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        return copy
    raise Refused(f"{path.parent} has too many backups of {path.name}; remove some")


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and its parents. Returns those that did not exist, innermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o755)
    return missing


def _escape(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)

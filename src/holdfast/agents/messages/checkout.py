"""Checkout: which repository and branch a folder belongs to, read from Git's own files without running Git."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

FILE_MAX = 64 * 1024
DEPTH_MAX = 40
REMOTES_MAX = 20

_URL = re.compile(r"^\s*url\s*=\s*(\S+)\s*$", re.MULTILINE)
_NAME = re.compile(r"[/:]([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+?)+)(?:\.git)?/?$")
_BRANCH = "ref: refs/heads/"


class Checkout(NamedTuple):
    """The repositories that a folder is a clone of, as `owner/name` in lower case, and the branch it is on."""

    repositories: frozenset[str]
    branch: str | None

    def fits(self, repository: str, branch: str | None) -> bool:
        """Whether this is a clone of the repository, on the branch if one is given."""
        return repository.lower() in self.repositories and branch in (None, self.branch)


NO_CHECKOUT = Checkout(frozenset(), None)


def read_checkout(folder: str) -> Checkout:
    """The checkout that a folder lies in. A folder that is none, or cannot be read, fits no repository."""
    try:
        git = _git_folder(Path(folder))
        if git is None:
            return NO_CHECKOUT
        head = _read(git / "HEAD").strip()
        shared = _read(git / "commondir").strip()
        config = _read((git / shared if shared else git) / "config")
    except (OSError, ValueError):
        return NO_CHECKOUT
    branch = head.removeprefix(_BRANCH) if head.startswith(_BRANCH) else None
    return Checkout(frozenset(filter(None, map(repository_of, _URL.findall(config)[:REMOTES_MAX]))), branch)


def repository_of(url: str) -> str | None:
    """The `owner/name` of a remote's URL, in lower case.

    >>> repository_of("git@github.com:Acme/shop.git"), repository_of("https://github.com/acme/shop")
    ('acme/shop', 'acme/shop')
    """
    rest = url.partition("://")[2].partition("/")[2] if "://" in url else url
    found = _NAME.search(f"/{rest}" if "://" in url else rest)
    return found[1].lower() if found else None


def _git_folder(folder: Path) -> Path | None:
    for parent in [folder, *folder.parents][:DEPTH_MAX]:
        git = parent / ".git"
        if git.is_dir():
            return git
        if git.is_file():  # a worktree or a submodule: the file names the folder
            name = _read(git).strip().removeprefix("gitdir:").strip()
            return (parent / name).resolve() if name else None
    return None


def _read(path: Path) -> str:
    """The beginning of a file; empty if there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(FILE_MAX).decode("utf-8", "replace")

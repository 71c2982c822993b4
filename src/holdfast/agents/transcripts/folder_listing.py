"""Bounded folder listings, newest name first, for the search of transcripts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

FOLDERS_MAX = 1000
NAMES_MAX = 20_000
MINUTE_PATTERN = r"\d{4}-\d\d-\d\dT\d\d-\d\d"
"""A time to the minute, as CLIs write it into file names."""


def list_folders(folder: Path) -> list[Path]:
    """The folders in a folder, in descending order of name. Symbolic links are left out."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, NAMES_MAX) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [folder / name for name in sorted(names, reverse=True)]


def list_files(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """The files in a folder whose names match, in descending order of name."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, NAMES_MAX) if pattern.fullmatch(entry.name)]
    except OSError:
        return []
    return [folder / name for name in sorted(names, reverse=True)]


def user_home(variables: Mapping[str, str]) -> Path:
    return Path(variables.get("HOME") or "/")

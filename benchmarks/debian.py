"""Programs from Debian packages, downloaded once into a cache folder if they are not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

FETCH_S = 120


def find(program: str, *packages: str) -> tuple[Path, dict[str, str]]:
    """The program and the environment it needs. The first package contains it, the others its libraries."""
    if found := shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin"):
        return Path(found), dict(os.environ)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast-tests" / program
    if not cache.exists():
        _fetch(cache, program, packages)
    libraries = ":".join(str(folder) for folder in (cache / "usr/lib").glob("*-linux-gnu"))
    return next(cache.glob(f"usr/*bin/{program}")), {**os.environ, "LD_LIBRARY_PATH": libraries}


def _fetch(cache: Path, program: str, packages: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="hf-deb-") as folder:
        try:
            command = ["apt-get", "download", *packages]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=FETCH_S)
            for package in Path(folder).glob("*.deb"):
                subprocess.run(
                    ["dpkg", "-x", package, f"{folder}/root"], check=True, capture_output=True, timeout=FETCH_S
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise RuntimeError(
                f"{program} is missing; install it, for example: apt-get install {packages[0]} ({error})"
            ) from None
        cache.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(f"{folder}/root", cache, dirs_exist_ok=True)

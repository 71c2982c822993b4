"""`promtool`, which checks metrics and alert rules.

If it is not installed, the Debian package is downloaded once into a cache folder; nothing is installed. If that fails,
the tests fail with the reason.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest


@lru_cache
def program() -> Path:
    if found := shutil.which("promtool"):
        return Path(found)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast-tests" / "promtool"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:  # several processes run tests
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / "promtool").exists():
            _fetch(cache)
    return cache / "promtool"


def _fetch(cache: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="hf-deb-") as folder:
        try:
            subprocess.run(
                ["apt-get", "download", "prometheus"],
                cwd=folder,
                check=True,
                capture_output=True,
                text=True,
                timeout=300,
            )
            (package,) = Path(folder).glob("*.deb")
            subprocess.run(["dpkg", "-x", package, f"{folder}/root"], check=True, capture_output=True, timeout=120)
            shutil.copy(f"{folder}/root/usr/bin/promtool", cache / "promtool.part")
            (cache / "promtool.part").rename(cache / "promtool")
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            why = getattr(error, "stderr", None) or error
            pytest.fail(f"these tests need promtool; install it, such as: apt-get install prometheus ({why})", False)


def promtool(*arguments: str | Path, input: bytes | None = None) -> tuple[int, str]:
    """The exit code and the output of one run."""
    done = subprocess.run(
        [program(), *arguments], input=input, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
    )
    return done.returncode, done.stdout.decode()

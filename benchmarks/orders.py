"""Runs measuring scripts in their own processes, each in its own environment."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".bench"
TIMEOUT_S = 400
INSTALL_S = 900
NEEDS = {"oban": (3, 12)}


class Failed(Exception):
    """A measurement failed; the message gives the reason in one sentence."""


class Unsupported(Exception):
    """The peer does not support this operation."""


def ask(python: str, name: str, **order: Any) -> dict[str, Any]:
    """Run the script of that name with one order. The result is the last line it prints."""
    script = ROOT / "benchmarks" / "peers" / f"run_{name.replace('-', '_')}.py"
    try:
        done = subprocess.run(
            [python, str(script), json.dumps(order)],
            capture_output=True, text=True, timeout=TIMEOUT_S, cwd=CACHE, check=False, env=_environment(name),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failed(f"{order['work']} did not end within {TIMEOUT_S} s") from None
    if done.returncode != 0:
        output = [line for line in done.stderr.splitlines() if line.strip()]
        raise Failed(f"{order['work']} ended with {done.returncode}: {output[-1] if output else 'no output'}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "unsupported" in answer:
        raise Unsupported(answer["unsupported"])
    return answer


def _environment(name: str) -> dict[str, str]:
    """This environment without variables that would load personal settings. Only Holdfast gets this source."""
    prefixes = ("HOLDFAST_", "PG", "DBOS_", "OBAN_", "PROCRASTINATE_", "PYTHONPATH")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(prefixes)}
    ours = {"PYTHONPATH": str(ROOT / "src")} if name == "holdfast" else {}
    return {**kept, **ours, "PYTHONDONTWRITEBYTECODE": "1"}


def environment(peer: str) -> str:
    """The interpreter of this peer's virtual environment, rebuilt when its lock file changed."""
    lock = ROOT / "requirements" / f"bench-{peer}.lock"
    base = python_for(peer)
    place = CACHE / "env" / peer
    python, stamp = place / "bin" / "python", place / ".made-of"
    wanted = hashlib.sha256(lock.read_bytes() + base.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted and python.exists():
        return str(python)
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    _install(base, "-m", "venv", str(place))
    # A lock file is complete, and with extras pip would look for releases newer than the pinned ones.
    pip = ("-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps", "--require-hashes")
    wheels = ("--only-binary", ":all:")
    try:
        _install(str(python), *pip, *wheels, "-r", str(lock))
    except Failed:
        _install(str(python), *pip, "-r", str(lock))
    stamp.write_text(wanted)
    return str(python)


def _install(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"it could not be installed within {INSTALL_S} s") from None
    if done.returncode:
        output = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines()
        raise Failed(f"it could not be installed: {output[-1] if output else done.returncode}")


def python_for(peer: str) -> str:
    """An interpreter new enough for this peer: the running one, or another one on this machine."""
    needed = NEEDS.get(peer, (3, 11))
    places = [Path(sys.executable)]
    for minor in range(14, 10, -1):
        if found := shutil.which(f"python3.{minor}"):
            places.append(Path(found))
    places += sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"), reverse=True)
    places += sorted(Path.home().glob(".local/share/uv/python/cpython-3.*/bin/python3"), reverse=True)
    for place in places:
        if needed <= _version(place) < (3, 15):
            return str(place)
    raise Failed(f"it needs Python {needed[0]}.{needed[1]} or later, and none was found on this machine")


def _version(python: Path) -> tuple[int, int]:
    code = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=20, check=False)
        major, minor = done.stdout.split()
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0, 0

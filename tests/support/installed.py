"""Build the package and install it into environments of their own, without a network."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a program to its end and return its output; a failure raises with what it printed."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env={**kept, **(env or {})}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{words} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(source: Path, folder: Path, kind: str) -> Path:
    """Build `wheel` or `sdist` from a source tree, which stays as it is."""
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder, cwd=source)
    (built,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def make_environment(folder: Path) -> Path:
    """An empty environment that finds the dependencies of this one, but not its Holdfast. Returns its python."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    add_dependencies(python)
    return python


def add_dependencies(python: Path) -> None:
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

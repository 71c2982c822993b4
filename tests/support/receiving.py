"""The real receiver in its own process, and the files it wrote."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.agents.receiver import receiver
from holdfast.agents.receiver.fallback_folders import fallback_folders
from holdfast.agents.receiver.intake import fallbacks
from holdfast.ingress.spool import position_of, read_record

PYTHON = [sys.executable, "-I", "-S", receiver.__file__]
PAYLOADS = Path(__file__).parents[1] / "fixtures" / "agent-hooks"

Record = tuple[dict[str, Any], bytes]


class Receiver:
    """Receivers of one home, with their own fallback folders, removed by `clean`."""

    def __init__(self, home: Path, command: Sequence[str] = PYTHON) -> None:
        self.home, self.command = home, list(command)
        self.env = {"HOLDFAST_HOME": str(home), "PATH": os.environ["PATH"]}

    def __call__(
        self, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, **how: Any
    ) -> subprocess.CompletedProcess[bytes]:
        env = self.env if env is None else env
        return subprocess.run([*self.command, *words], input=stdin, capture_output=True, timeout=60, env=env, **how)

    def start(self, *words: str, **how: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.env}
        return subprocess.Popen([*self.command, *words], **{**pipes, **how})

    def names(self) -> list[str]:
        """The records in the spool, in import order."""
        return _names(self.home / "spool")

    def records(self) -> list[Record]:
        return [read_record(self.home / "spool" / name) for name in self.names()]

    def kept_elsewhere(self) -> list[Record]:
        return [read_record(folder / name) for folder in fallback_folders(self.home) for name in _names(folder)]

    def clean(self) -> None:
        for parent, key in fallbacks(os.fsencode(self.home)):
            shutil.rmtree(parent + b"/" + key, ignore_errors=True)


def silent(done: subprocess.CompletedProcess[bytes]) -> bool:
    """The output every agent must see, whatever happened: none."""
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def _names(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    places = filter(None, map(position_of, os.listdir(folder)))
    return [place.name for place in sorted(places, key=lambda place: (place.since_boot_ns, place.name))]

"""A home on a full or a read-only disk: the event is kept elsewhere, the line is in the log, the daemon finds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from receiving import Receiver


def test_on_a_full_or_read_only_disk_events_are_kept_in_a_fallback_folder(receiver: Receiver) -> None:
    here = Path(__file__)
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, str(here.with_name("small_spool.py"))]
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(here.parents[1] / "support")])
    env = {**os.environ, "PYTHONPATH": path}
    try:
        ran = subprocess.run(
            [*command, str(receiver.home), *receiver.command], capture_output=True, text=True, timeout=60, env=env
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if ran.returncode == 77 or "unshare:" in ran.stderr:
        pytest.skip("a small disk cannot be mounted here")
    assert ran.stdout == "done\n", ran.stderr

"""The summary of a run covers all of its workers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOY = """
import signal
import pytest

@pytest.mark.parametrize("number", range(6))
def test_counted(number, record_property):
    record_property("simulated schedules", number)
    record_property("faults", 2)
    record_property("something else", "said")

def test_children_hear_the_interrupt():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def deaf() -> None:
    """Ignore SIGINT, as in a job that a shell starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_counts_of_tests_are_added_up_over_all_workers(tmp_path: Path, workers: str) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_toy.py").write_text(TOY, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers, "--dist", "worksteal"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=tmp_path, env=kept, preexec_fn=deaf, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 simulated schedules, 12 faults" in done.stdout.splitlines()
    assert "7 passed" in done.stdout

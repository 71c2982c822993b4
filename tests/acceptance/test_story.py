"""What a newcomer does first: the demo, the daemon, Ctrl-C, the wheel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_demo_checks_every_step_and_changes_nothing_else(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "HOLDFAST_HOME": str(tmp_path / "untouched")}
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "demo", "--json"], env=environment, capture_output=True, timeout=120
    )
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["ok"]) == (0, True), done.stdout + done.stderr
    assert set(answer["checks"]) == {
        "tables", "contract", "retried", "nothing_lost", "in_order", "rollback", "signed", "handler", "dead_letter",
        "reprocessed", "receipts", "settled", "clean_stop",
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_up_prints_its_address_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    daemon = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "up", "--port", "0"],
        env={**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert daemon.stdout is not None
    said = [daemon.stdout.readline() for _ in range(8)]
    assert said[4].startswith("Try next")
    for command in said[5:]:  # as they are printed
        env = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")}
        assert subprocess.run(["sh", "-c", command], env=env, stdout=subprocess.DEVNULL, timeout=60).returncode == 0
    daemon.send_signal(signal.SIGINT)
    rest, _ = daemon.communicate(timeout=60)
    assert daemon.returncode == 0
    text = "".join(said)
    assert "is up at http://127.0.0.1:" in text
    assert str(tmp_path / "home") in text
    assert "Stopped cleanly." in rest
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "home").iterdir() if path.is_file()}
    assert all(mode == 0o600 for mode in modes.values()), modes
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700


def test_the_wheel_carries_everything_the_package_reads(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "holdfast"
    wanted = {
        str(path.relative_to(ROOT / "src"))
        for path in package.rglob("*")
        if path.is_file() and path.suffix in (".py", ".sql", ".yml", ".typed")
    }
    assert wanted <= names, sorted(wanted - names)
    assert not [name for name in names if name.startswith("tests/")]

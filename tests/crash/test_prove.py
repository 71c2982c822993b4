"""The proof, small: ten kills of the real daemon under load, and every event accounted for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_ten_kills_lose_nothing_reorder_nothing_and_repeat_nothing_without_cause() -> None:
    command = [sys.executable, "-m", "holdfast.testing.prove", "--kills", "10", "--seed", "4653", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=220)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["lost"], found["order_violations"], found["unexplained_duplicates"]) == (0, 0, 0)
    assert found["violations"] == 0
    assert found["kills"] == 10
    assert found["kills_in_flight"] >= 5
    assert found["accepted"] > 0
    assert found["receipts_verified"] > 0
    assert found["seed"] == 4653


def test_a_campaign_that_cannot_be_run_says_so_and_fails(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.testing.prove", "--kills", "0"],
        capture_output=True, text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "must be 1 or more" in done.stderr

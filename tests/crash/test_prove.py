"""The proof, small: ten kills of the real daemon under load; and with a known fault put in, it fails as it must."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.prove.faults import FAULTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SEEN_AS = {"stranding": "settled", "overtaking": "order", "forgetting": "lost"}


def prove(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "holdfast.testing.prove", "--json", *arguments]
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=220, env=environment)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_ten_kills_lose_nothing_reorder_nothing_and_repeat_nothing_without_cause(tmp_path: Path) -> None:
    code, found = prove(tmp_path, "--kills", "10", "--seed", "4653")
    assert code == 0, found
    assert (found["lost"], found["order_violations"], found["unexplained_duplicates"]) == (0, 0, 0)
    assert found["violations"] == 0
    assert found["kills"] == 10
    assert found["kills_in_flight"] >= 5
    assert found["accepted"] > 0
    assert found["receipts_verified"] > 0
    assert found["seed"] == 4653
    assert list(tmp_path.iterdir()) == [], "a campaign that found nothing leaves nothing behind"


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_known_fault_is_seen(tmp_path: Path, fault: str) -> None:
    code, found = prove(tmp_path, "--kills", "4", "--seed", "5", "--fault", fault)
    assert code == 1
    assert found["violations_by_promise"].get(SEEN_AS[fault], 0) > 0, found
    assert Path(found["kept"]).is_dir(), "what happened must be kept"


def test_a_campaign_without_kills_is_refused() -> None:
    command = [sys.executable, "-m", "holdfast.testing.prove", "--kills", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "must be 1 or more" in done.stderr

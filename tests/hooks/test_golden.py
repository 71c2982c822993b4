"""Every payload of every CLI becomes the event, the properties and the session that the table says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hooks import FILES

sys.path.insert(0, str(Path(__file__).parent))
from golden import GOLDEN, line

TABLE = json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_a_payload_becomes_what_the_table_says(name: str) -> None:
    assert line(name) == TABLE[name], "if this is meant: python tests/hooks/golden.py, and read the diff"


def test_the_table_has_every_payload_and_no_other() -> None:
    assert list(TABLE) == FILES
    assert len(FILES) == 82


def test_the_table_is_written_as_it_is_read() -> None:
    script = "import golden; print(golden.text(), end='')"
    done = subprocess.run([sys.executable, "-c", script], cwd=GOLDEN.parent, capture_output=True, check=True)
    assert done.stdout.decode() == GOLDEN.read_text(encoding="utf-8")

"""README.md is short, and its figures are those of the pages it links to. The commands of some other pages run here.

Its own commands run in `tests/acceptance/test_first_minutes.py`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBERS = (ROOT / "docs" / "proof" / "numbers.md").read_text(encoding="utf-8")
PROOF = (ROOT / "docs" / "proof" / "prove.md").read_text(encoding="utf-8")
WORDS_MAX = 960
PAGES = ("docs/agents/sessions.md", "docs/webhooks/outbound.md")
"""Further pages with commands for a running daemon; ids in them are examples and may not exist."""
NOT_FOUND = 3


def test_it_is_short():
    assert len(TEXT.split()) <= WORDS_MAX


@pytest.fixture
def environment(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return {**kept, "HOME": str(tmp_path), "HOLDFAST_HOME": str(home), "HOOK_SECRET": "a secret of sixteen bytes"}


@pytest.fixture
def daemon(environment):
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "up", "--port", "0"],
        env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert " is up at " in process.stdout.readline()
        yield
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_succeeds_on_a_running_daemon(environment, daemon, page):
    lines = re.findall(r"^\$ holdfast (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert lines
    for line in lines:
        command = [sys.executable, "-m", "holdfast", *shlex.split(line, comments=True)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode in (0, NOT_FOUND), f"{line}: {done.stdout}{done.stderr}"


def test_its_figures_are_those_of_the_page_of_numbers():
    rows = re.findall(r"^\| (.+?) \| (\d.*?) \|$", TEXT, re.MULTILINE)
    assert rows
    for name, result in rows:
        assert re.search(rf"^\| {re.escape(name)} \| [^|]+ \| {re.escape(result)} \|", NUMBERS, re.MULTILINE), name


def test_its_table_of_the_proof_is_part_of_the_full_one():
    (block,) = re.findall(r"^```text\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    full = {" ".join(line.split()) for line in PROOF.splitlines()}
    for line in block.splitlines():
        assert " ".join(line.split()) in full, line

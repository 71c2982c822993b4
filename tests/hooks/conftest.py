"""Receivers with a home of their own, in each of their forms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.agents.receiver.program import find_program
from receiving import PYTHON, Receiver


@pytest.fixture(scope="session")
def fast() -> list[str]:
    program = find_program()
    if program == PYTHON:
        pytest.skip("the fast path does not serve on this machine")
    return program


@pytest.fixture(params=["python", "perl"])
def receiver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Receiver]:
    made = Receiver(tmp_path / "home", PYTHON if request.param == "python" else request.getfixturevalue("fast"))
    made.home.mkdir(mode=0o700)
    (made.home / "spool").mkdir(mode=0o700)
    yield made
    made.clean()

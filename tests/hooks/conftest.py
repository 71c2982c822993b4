"""Receivers with a home of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from receiving import PYTHON, Receiver

PROGRAMS = {"python": PYTHON}


@pytest.fixture(params=PROGRAMS)
def receiver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Receiver]:
    made = Receiver(tmp_path / "home", PROGRAMS[request.param])
    yield made
    made.clean()

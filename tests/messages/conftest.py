"""A tmux server, and a home for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.proof.messages.stage import TmuxServer


@pytest.fixture
def tmux() -> Iterator[TmuxServer]:
    server = TmuxServer()
    yield server
    server.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"

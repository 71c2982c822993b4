"""PostgreSQL keeps every promise of the store suite with its ready queue in pgmq."""

from __future__ import annotations

import pytest

from holdfast.testing.store_suite import OpenStore, all_suites
from postgres import Server, newest, start

pytest_plugins = ("postgres",)
globals().update(all_suites())


@pytest.fixture
def server() -> Server:
    """The newest version; `test_pgmq.py` runs on the oldest too."""
    return start(newest())


@pytest.fixture
def open_store(open_pgmq: OpenStore) -> OpenStore:
    return open_pgmq

"""PostgreSQL keeps every promise of the store suite, on the oldest and the newest version there is."""

from __future__ import annotations

import pytest

from holdfast.testing.store_suite import OpenStore, all_suites

pytest_plugins = ("postgres",)
globals().update(all_suites())


@pytest.fixture
def open_store(open_postgres: OpenStore) -> OpenStore:
    return open_postgres

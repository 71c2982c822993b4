"""The pytest plugin, installed with Holdfast: the fixture `holdfast_outbox`.

def test_an_order_is_shipped(holdfast_outbox):
    with holdfast_outbox.connection() as connection:
        holdfast_outbox.publish(connection, "order.placed", {"id": 42})
    assert holdfast_outbox.published("order.*")
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.testing.outbox import RecordingOutbox


@pytest.fixture
def holdfast_outbox(tmp_path: Path) -> Iterator[RecordingOutbox]:
    """An outbox on a temporary SQLite file. Inspect events with `published`, deliver with `drain`."""
    from holdfast.testing.outbox import RecordingOutbox

    outbox = RecordingOutbox(tmp_path / "holdfast-test.db")
    yield outbox
    outbox.close()

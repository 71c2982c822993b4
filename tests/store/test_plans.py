"""Query plans: what runs often, or over a long backlog, goes by an index with either library."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.store import DRIVERS, prepare_file

HOT = [
    "contract_changed", "delivery_delivered", "delivery_known", "delivery_lanes", "event_first", "event_get",
    "cursor_begin", "cursors_of_stream", "event_seq", "handed_due", "lagging_claim", "lagging_extend", "lagging_held",
    "lagging_leased", "lagging_mark", "lagging_next", "reader_oldest", "stream_first", "survey_page",
    "lane_join", "lane_next", "lease_release", "lease_renew", "ready_remove_paused",
    "ready_again", "ready_end", "ready_lease", "ready_leased", "ready_queues", "receipt_at", "sessions_old",
    "stream_emptied", "stream_read", "streams_emptied", "streams_pinned", "streams_refilled", "suspect_lease",
    "unrouted_take", "unserved_pending",
]  # fmt: skip
LARGE = re.compile(
    r"SCAN (holdfast_(events|deliveries|ready|dedup|receipts|streams|lanes|attempts|contracts|lagging|cursors)"
    r"|behind|[cderhl])\b"
)


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_never_scans_a_large_table(tmp_path: Path, driver: str, name: str) -> None:
    prepare_file(tmp_path / "h.db", driver, own=True, create=True)
    connection = DRIVERS[driver](tmp_path / "h.db")
    text = getattr(sql, name)
    numbered = {int(number) for number in re.findall(r"\?(\d+)", text)}
    count = max(numbered) if numbered else text.count("?")
    steps = [str(row[3]) for row in connection.rows(f"EXPLAIN QUERY PLAN {text}", [1] * count)]
    connection.close()
    assert [step for step in steps if LARGE.match(step)] == []

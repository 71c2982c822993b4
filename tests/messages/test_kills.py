"""A short share of the proof for messages: the daemon, the agent and tmux are killed around the paste."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.proof.messages.campaign import KINDS, MessageCampaign
from postgres import end_schema, fresh_schema, newest, start

pytestmark = pytest.mark.slow
pytest_plugins = ("postgres",)


def test_no_kill_loses_repeats_or_reorders_a_message_on_sqlite(tmp_path: Path) -> None:
    check(tmp_path, None)


def test_no_kill_loses_repeats_or_reorders_a_message_on_postgresql(tmp_path: Path) -> None:
    server, schema = start(newest()), fresh_schema()
    try:
        check(tmp_path, server.url(schema))
    finally:
        asyncio.run(end_schema(server, schema))


def check(folder: Path, url: str | None) -> None:
    report = MessageCampaign(folder / "home", url, 1, print).run(len(KINDS))
    assert report.violations == []
    assert (report.messages, report.kills.total()) == (3 * len(KINDS), len(KINDS))

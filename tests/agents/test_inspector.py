"""The MCP inspector lists and calls the tools over both transports: `make agents`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import Daemon, shop
from inspector import inspect

sys.path.insert(0, str(Path(__file__).parent))
from programs import MODULES

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not MODULES.is_dir(), reason="run by: make agents")]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with shop(tmp_path) as running:
        yield running


def server(daemon: Daemon, transport: str) -> tuple[str, ...]:
    """The words that name the server."""
    if transport == "stdio":
        # The inspector passes on none of its own variables.
        passed = [f"{name}={daemon.env.get(name, '')}" for name in ("HOLDFAST_HOME", "PYTHONPATH")]
        return ("-e", passed[0], "-e", passed[1], sys.executable, "-m", "holdfast", "mcp")
    return (f"{daemon.url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {daemon.token}")


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_the_inspector_lists_and_calls_the_tools(daemon: Daemon, transport: str) -> None:
    event = daemon.request("POST", "/api/events", {"type": "bad.order", "payload": {"n": 1}})[1]["id"]
    (dead,) = daemon.wait_for(f"/api/dlq?event={event}", lambda page: page["items"] != [])["items"]
    words = server(daemon, transport)
    listed = inspect(*words, "--method", "tools/list", env=daemon.env)["tools"]
    assert {"dlq_count", "dlq_inspect", "dlq_reprocess", "explain_event", "status"} <= {tool["name"] for tool in listed}
    assert all(tool["outputSchema"]["type"] == "object" for tool in listed)
    call = ("--method", "tools/call", "--tool-name")
    counted = inspect(*words, *call, "dlq_count", env=daemon.env)
    assert counted["structuredContent"]["count"] == 1
    ids = json.dumps([dead["id"]])
    requeued = inspect(*words, *call, "dlq_reprocess", "--tool-arg", f"msg_ids={ids}", env=daemon.env)
    assert requeued["structuredContent"]["reprocessed"] == 1

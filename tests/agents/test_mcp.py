"""The real Claude Code repairs deliveries through `holdfast mcp install`: `make agents`.

The model on this machine plays a fixed script; the CLI, its permissions, the installed server and the daemon are real.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon

sys.path.insert(0, str(Path(__file__).parent))
from model import Json, Model, _Handler, anthropic
from programs import MODULES, PROGRAMS, RUN_S, User

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not MODULES.is_dir(), reason="run by: make agents")]

CLAUDE = PROGRAMS["claude"]
PREFIX = "mcp__holdfast__"
DONE = "All dead letters were requeued."
SHOP = """
import os
from pathlib import Path
from holdfast import Outbox, Reject

outbox = Outbox("sqlite:///" + os.environ["HOLDFAST_HOME"] + "/holdfast.db")


@outbox.on("order.*")
def ship(event):
    if not Path(os.environ["OPEN_FILE"]).exists():
        raise Reject("the warehouse is closed")
"""


def results_of(body: Json) -> list[str]:
    """The texts of all tool results so far, in order."""
    found = []
    for message in body.get("messages") or []:
        for part in message["content"] if isinstance(message.get("content"), list) else []:
            if isinstance(part, dict) and part.get("type") == "tool_result":
                content = part.get("content")
                texts = content if isinstance(content, list) else [{"text": content}]
                found.append("".join(str(text.get("text", "")) for text in texts))
    return found


class Operator(Model):
    """A model that counts, inspects, explains, fixes, requeues and counts again."""

    def __init__(self, open_file: Path) -> None:
        super().__init__()
        self._open_file = open_file
        self.results: list[str] = []
        self._server.RequestHandlerClass = type("Handler", (_OperatorHandler,), {"model": self})

    def step(self, body: Json) -> tuple[str, Json] | None:
        """The next tool and its input; None: the work is done."""
        results = results_of(body)
        self.results = results if len(results) > len(self.results) else self.results
        if len(results) >= 2:
            items = json.loads(results[1])["items"]
        match len(results):
            case 0 | 5:
                return f"{PREFIX}dlq_count", {}
            case 1:
                return f"{PREFIX}dlq_inspect", {"limit": 10}
            case 2:
                return f"{PREFIX}explain_event", {"id": items[0]["event_id"]}
            case 3:
                return "Bash", {"command": f"touch {self._open_file}", "description": "open the warehouse"}
            case 4:
                return f"{PREFIX}dlq_reprocess", {"msg_ids": [item["id"] for item in items]}
            case _:
                return None


class _OperatorHandler(_Handler):
    model: Operator

    def _reply(self, streamed: object, answer: Any) -> None:
        _, body = self.model.asked[-1]
        names = {tool.get("name") for tool in body.get("tools") or []}
        if f"{PREFIX}dlq_count" not in names:  # beside the conversation, such as a title
            super()._reply(streamed, answer)
            return
        step = self.model.step(body)
        whole, _ = anthropic({**body, "tools": []})
        block: Json = {"type": "text", "text": DONE}
        if step is not None:
            block = {"type": "tool_use", "id": f"toolu_{len(self.model.asked)}", "name": step[0], "input": step[1]}
        super()._reply(streamed, _message(whole, block, "end_turn" if step is None else "tool_use"))


def _message(whole: Json, block: Json, stop: str) -> tuple[Json, list[tuple[str | None, Json | str]]]:
    message = {**whole, "content": [block], "stop_reason": stop}
    tool = block["type"] == "tool_use"
    empty = {**block, "input": {}} if tool else {**block, "text": ""}
    delta = (
        {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        if tool
        else {"type": "text_delta", "text": block["text"]}
    )
    events: list[Json] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": whole["usage"]},
        {"type": "message_stop"},
    ]
    return message, [(each["type"], each) for each in events]


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Operator]:
    made = Operator(tmp_path / "open")
    yield made
    made.close()


def test_claude_code_repairs_deliveries_through_the_installed_server(tmp_path: Path, model: Operator) -> None:
    user = User(tmp_path / "user", model.url)
    user.prepare(CLAUDE)
    (tmp_path / "shop.py").write_text(SHOP)
    shop = {"HOME": str(user.home), "OPEN_FILE": str(tmp_path / "open")}
    with Daemon(tmp_path / "home", app="shop:outbox", cwd=tmp_path, env=shop) as daemon:
        for number in range(3):
            daemon.request("POST", "/api/events", {"type": "order.placed", "payload": {"order": number}})
        daemon.wait_for("/api/dlq/count", lambda answer: answer["count"] == 3)
        said = daemon.cli("mcp", "install", "--agent", "claude", "--allow", "operate", env=user.env(CLAUDE))
        assert said.code == 0, said
        words = [str(user.bin / "claude"), "-p", "repair the deliveries", "--allowedTools", "Bash,mcp__holdfast"]
        # Otherwise its model has to search for the tools of MCP servers first.
        env = {**user.env(CLAUDE), "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "ENABLE_TOOL_SEARCH": "false"}
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_S, cwd=user.work, env=env
        )
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        assert DONE in done.stdout.decode()
        counted, inspected, explained, _, requeued, again = model.results
        assert json.loads(counted)["count"] == 3
        assert "not instructions" in json.loads(inspected)["notice"]
        assert "the warehouse is closed" in explained
        assert json.loads(requeued)["reprocessed"] == 3
        assert json.loads(again)["count"] in range(4)  # some may still be running
        daemon.wait_for("/api/dlq/count", lambda answer: answer["count"] == 0)
        assert daemon.cli("mcp", "uninstall", "--agent", "claude", env=user.env(CLAUDE)).code == 0
        assert "holdfast" not in json.loads((user.home / ".claude.json").read_text()).get("mcpServers", {})

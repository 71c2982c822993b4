"""The recipe "Add an agent CLI" of CONTRIBUTING.md, followed to the letter in a copy of the package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
FILES = ("hooks.py", "install.py", "transcript.py", "__init__.py")
SRC_HOLDFAST = ROOT / "src" / "holdfast"

USE = """
import asyncio, json, sys
from pathlib import Path

from holdfast.agents.hooks.decoder import decode_hook
from holdfast.agents.install.environment import Environment
from holdfast.agents.install.installer import Installer
from holdfast.agents.sessions.consumer import SessionConsumer
from holdfast.agents.transcripts.follower import Follower, FollowSettings
from holdfast.agents.transcripts.reader import read_latest
from holdfast.domain.event import Event
from holdfast.domain.session import SessionChange
from holdfast.home import Home
from holdfast.ports import SystemClock, Threads
from holdfast.store.open import open_store
from holdfast.store.roles.events import EventFilter

folder = Path(sys.argv[1])
answer = {}


def hook(number, name, **fields):
    header = {"id": f"evt_{number:032x}", "agent": "toy", "received_at": 1794780952318 + number}
    payload = {"hook_event_name": name, "session_id": "s1", "cwd": "/src", **fields}
    made = decode_hook(header, json.dumps(payload).encode())
    return Event(number, made.id, made.stream, number, made.source, made.type, made.timestamp, 0,
                 made.properties.decode(), made.payload.decode(), made.to)


async def sessions_and_transcript():
    path = folder / "s1.jsonl"
    lines = [{"role": "user", "text": "Fix it", "id": "1"}, {"role": "assistant", "text": "Fixed", "id": "2"}]
    path.write_text("".join(json.dumps({**line, "timestamp": "2026-11-15T22:15:53Z"}) + "\\n" for line in lines))
    store = open_store(f"sqlite:///{folder}/toy.db")
    consumer = SessionConsumer(store.sessions, read_latest)
    begin = hook(1, "Begin", transcript_path=str(path))
    events = [begin, hook(2, "Ask", prompt="Fix it"), hook(3, "Done", reply="Yes")]
    for event in events:
        for effect in (await consumer.handle(event)).effects:
            if isinstance(effect, SessionChange):
                await store.sessions.change(effect)
    session = await store.sessions.get("toy-s1")
    answer["types"] = [event.type for event in events]
    answer["session"] = [session.state, session.last_prompt, session.last_answer]
    threads = Threads("toy")
    await Follower(store, SystemClock(), threads, settings=FollowSettings(start="beginning")).tick()
    threads.close()
    page = await store.events.find(EventFilter(type="agent.output"), None, 10)
    answer["output"] = [event.payload["text"] for event in page.items]
    await store.close()


def install_and_undo():
    home = folder / "home"
    config = home / ".toy" / "hooks.json"
    config.parent.mkdir(parents=True)
    config.write_text(\'{"mine": true} // kept\\n\')
    program = (sys.executable, "-I", "-S", "/x/holdfast/agents/receiver/receiver.py")
    installer = Installer(Environment(home, {}, folder, sys.executable, program), Home(folder / "state"))
    answer["install"] = installer.install().agents[-1].result
    answer["installed"] = sorted(json.loads(config.read_text().partition("//")[0])["hooks"])
    answer["status"] = installer.status(["toy"]).agents[0].events
    answer["uninstall"] = installer.uninstall(["toy"]).agents[0].result
    answer["restored"] = config.read_text()


asyncio.run(sessions_and_transcript())
install_and_undo()
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def recipe() -> str:
    section = re.search(r"^## Add an agent CLI\n(.*?)(?=^## |\Z)", CONTRIBUTING, re.DOTALL | re.MULTILINE)
    assert section is not None
    return section[1]


@pytest.fixture(scope="module")
def answer(recipe: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("recipe")
    shutil.copytree(SRC_HOLDFAST, folder / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    ((name, parent),) = re.findall(r"Create the folder `(\w+)` in `src/([\w/]+)`", recipe)
    own = folder / parent / name
    own.mkdir()
    for file, text in zip(FILES, re.findall(r"^```python\n(.*?)^```", recipe, re.DOTALL | re.MULTILINE), strict=True):
        (own / file).write_text(text, encoding="utf-8")
    ((module, value),) = re.findall(r"Add `(\w+)` to the import and `([\w.]+,)` to `AGENTS`", recipe)
    registry = folder / "holdfast" / "agents" / "registry.py"
    text = registry.read_text("utf-8")
    text = re.sub(r"^(from holdfast.agents import .*)$", rf"\1, {module}", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"(AGENTS: .*?)\n\)", rf"\1\n    {value}\n)", text, count=1, flags=re.DOTALL)
    registry.write_text(text, encoding="utf-8")
    work = folder / "work"
    work.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", USE, str(work)], cwd=folder, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_its_hooks_update_a_session(answer: dict[str, Any]) -> None:
    assert answer["types"] == ["hook.session_start", "hook.user_prompt_submit", "hook.agent_stop"]
    assert answer["session"] == ["idle", "Fix it", "Yes"]


def test_its_transcript_is_followed(answer: dict[str, Any]) -> None:
    assert answer["output"] == ["Fixed"]


def test_its_hooks_are_installed_and_removed_again(answer: dict[str, Any]) -> None:
    assert (answer["install"], answer["uninstall"]) == ("changed", "changed")
    assert answer["installed"] == ["Ask", "Begin", "Done", "End"]
    assert answer["status"] == ["Begin", "Ask", "Done", "End"]
    assert answer["restored"] == '{"mine": true} // kept\n'

"""The events of every known payload: `python tests/hooks/golden.py` rewrites golden.json; read the diff."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "src")]

from holdfast.agents.hooks.decoder import decode_hook  # noqa: E402
from holdfast.agents.sessions.agent_hook import read_agent_hook  # noqa: E402
from holdfast.agents.sessions.lifecycle import advance  # noqa: E402
from hooks import FILES, applied, fixture, header, stored  # noqa: E402

GOLDEN = Path(__file__).with_name("golden.json")
SHOWN = ("state", "cwd", "pane", "transcript", "title", "last_prompt", "last_answer")


def line(name: str) -> dict[str, Any]:
    """One payload, fed alone as the first of its session, from a receiver in pane %3."""
    agent, event, body = fixture(name)
    raw = decode_hook(header(1, agent, event, pane="%3", tmux="/tmp/tmux-1000/default", tmux_server=4242), body)
    assert raw is not None
    change, events = advance(None, read_agent_hook(stored(raw)))
    session = applied(None, change)
    payload = json.loads(raw.payload)
    assert payload.pop("raw") == json.loads(body)
    return {
        "type": raw.type,
        "source": raw.source,
        "stream": raw.stream,
        "to": raw.to,
        "dedup_key": raw.dedup_key,
        "properties": json.loads(raw.properties),
        "payload": payload,
        "session": {**{name: getattr(session, name) for name in SHOWN}, "facts": session.facts},
        "events": [event.type for event in events],
    }


def text() -> str:
    return json.dumps({name: line(name) for name in FILES}, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(text(), encoding="utf-8")

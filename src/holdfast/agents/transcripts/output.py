"""Output: the event that tells what an agent said or did, under a key that makes telling it again harmless."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from holdfast.agents.transcripts.entry import Entry
from holdfast.domain.agent_events import agent_output
from holdfast.domain.event import NewEvent
from holdfast.domain.session import Session


def is_output(entry: Entry) -> bool:
    """Prompts and titles come with the hooks; what a program wrote in the model's place is not the agent's."""
    return entry.kind in ("assistant", "tool") and not entry.injected


def output_of(session: Session, entry: Entry, place: str) -> tuple[str, NewEvent]:
    """The event of an entry and its dedup key.

    The key covers all that the event holds, so it can never stand for two different ones. An entry that its format
    names and dates is the same one wherever it is read again; any other only in its own `place`.
    """
    payload: dict[str, Any] = {"agent": session.agent, "text": entry.text, "at": entry.at, "id": entry.id}
    more = {"agent": session.agent, "tool_name": entry.tool, "subagent": entry.subagent or None}
    where = None if entry.id and entry.at else [place, entry.offset]
    key = f"{session.id}:{digest(json.dumps([entry.kind, payload, more, entry.part, where], sort_keys=True))}"
    event = agent_output(entry.kind, session.id, payload, dedup_key=key, **more)
    return key, event._replace(timestamp=entry.at)


def digest(*parts: str) -> str:
    return hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]

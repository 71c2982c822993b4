"""The `agent.output` event of a transcript entry. Its dedup key makes appending it twice harmless."""

from __future__ import annotations

import hashlib
import json

from holdfast.agents.sessions.message_facts import answered_message, message_properties
from holdfast.agents.transcripts.transcript_entry import TranscriptEntry
from holdfast.domain.agent_events import agent_output
from holdfast.domain.event import NewEvent, parse_time
from holdfast.domain.json_value import JsonObject, text_in
from holdfast.domain.session import Session

CLOCKS_DIFFER_MS = 2000


def is_output(entry: TranscriptEntry) -> bool:
    """Answers and tool calls are output. Prompts and titles come from hooks; injected texts are not the agent's."""
    return entry.kind in ("assistant", "tool") and not entry.injected


def output_event(session: Session, entry: TranscriptEntry, file_name: str) -> tuple[str, NewEvent]:
    """The dedup key and the event of an entry.

    The key is a digest of everything in the event, so different events never share a key. An entry with an id and a
    time has the same key in every file; any other entry only at the same offset of the file `file_name`.
    """
    payload: JsonObject = {"agent": session.agent, "text": entry.text, "at": entry.at, "id": entry.id}
    properties: JsonObject = {"agent": session.agent, "tool_name": entry.tool, "subagent": entry.subagent or None}
    position = None if entry.id and entry.at else [file_name, entry.offset]
    content = json.dumps([entry.kind, payload, properties, entry.part, position], sort_keys=True)
    key = f"{session.id}:{digest(content)}"
    # The message is not part of the key: what an entry answers is known only while its turn lasts.
    answered = answered_message(session.facts) if _in_turn(session, entry) else None
    more: JsonObject = {} if answered is None else {"answers": answered}
    properties |= message_properties(answered)
    event = agent_output(entry.kind, session.id, {**payload, **more}, dedup_key=key, **properties)
    return key, event._replace(timestamp=entry.at)


def _in_turn(session: Session, entry: TranscriptEntry) -> bool:
    """Whether the entry was written after the last prompt. Times of hooks and transcripts differ by a little."""
    started = text_in(session.facts, "turn_started_at")
    if started is None or entry.at is None:
        return True
    return parse_time(entry.at, "at") >= parse_time(started, "at") - CLOCKS_DIFFER_MS


def digest(*parts: str) -> str:
    return hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]

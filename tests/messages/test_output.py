"""The agent's output names the message that it answers, and stays the same event when it is read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdfast.agents.transcripts.follower import Follower
from holdfast.agents.transcripts.output import output_event
from holdfast.agents.transcripts.transcript_entry import TranscriptEntry
from holdfast.domain.session import Session
from holdfast.ports import Inline
from holdfast.store.open import open_store
from holdfast.testing.clock import ManualClock

ANSWERING = {"id": "evt_1", "origin": "telegram", "channel": "42", "source_message_id": "7", "thread": "", "hops": 0}
FACTS = {"answering": ANSWERING, "turn_started_at": "2026-01-31T12:00:00Z"}
SESSION = Session("claude-s1", "claude", "s1", facts=FACTS)
ENTRY = TranscriptEntry(kind="assistant", text="Done.", at="2026-01-31T12:00:05Z", id="m1", offset=0)


def test_output_of_a_turn_names_its_message() -> None:
    import json

    _, event = output_event(SESSION, ENTRY, "file")
    assert json.loads(event.payload)["answers"]["id"] == "evt_1"
    assert json.loads(event.properties)["message_channel"] == "42"
    _, before = output_event(SESSION, replace(ENTRY, at="2026-01-31T11:59:00Z"), "file")
    assert "answers" not in json.loads(before.payload)


async def test_output_that_is_read_again_in_another_turn_is_the_same_event(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db", keep=True)
    follower = Follower(store, ManualClock(), Inline())
    first, second = output_event(SESSION, ENTRY, "f")[1], output_event(replace(SESSION, facts={}), ENTRY, "f")[1]
    other = output_event(SESSION, replace(ENTRY, id="m2", text="More."), "f")[1]
    assert first.dedup_key == second.dedup_key
    await follower._append([first])
    await follower._append([second, other])
    assert (follower.appended, follower.repeated, follower.refused) == (2, 1, 0)
    await store.close()

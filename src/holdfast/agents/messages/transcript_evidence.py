"""The transcript as evidence: an agent whose prompt hook did not run may still have written the prompt down."""

from __future__ import annotations

import logging

from holdfast.agents.messages.text import contains_message
from holdfast.agents.registry import transcript_format
from holdfast.agents.transcripts.reader import read, start_at
from holdfast.agents.transcripts.transcript_entry import TranscriptEntry
from holdfast.domain.errors import BadInput
from holdfast.domain.event import parse_time
from holdfast.domain.session import Session

BATCHES_MAX = 32
EARLIER_MS = 1000

log = logging.getLogger("holdfast.messages")


def is_in_transcript(session: Session, text: str, since_ms: int) -> bool:
    """Whether a prompt that was written down since this time contains the message. Reads a bounded part of the file."""
    if session.transcript is None or transcript_format(session.agent) is None:
        return False
    try:
        offset = start_at(session.agent, session.transcript, since_ms - EARLIER_MS)
        for _ in range(BATCHES_MAX):
            batch = read(session.agent, session.transcript, offset)
            if any(_is_prompt(entry, since_ms) and contains_message(entry.text, text) for entry in batch.entries):
                return True
            if not batch.more or batch.next_offset <= offset:
                break
            offset = batch.next_offset
    except (OSError, BadInput) as error:
        log.debug("the transcript of session %s is no evidence: %s", session.id, error)
    return False


def _is_prompt(entry: TranscriptEntry, since_ms: int) -> bool:
    """Whether an entry is a prompt of this time. One without a time may be older."""
    if entry.kind != "user" or entry.injected or entry.at is None:
        return False
    return parse_time(entry.at, "at") >= since_ms - EARLIER_MS

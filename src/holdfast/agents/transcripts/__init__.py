"""Transcripts: the files in which agent CLIs write down what was said, read while they grow."""

from __future__ import annotations

from holdfast.agents.transcripts.entry import Entry
from holdfast.agents.transcripts.places import find_transcript
from holdfast.agents.transcripts.reader import FORMATS, Batch, LastWords, last_words, read

__all__ = ["FORMATS", "Batch", "Entry", "LastWords", "find_transcript", "last_words", "read"]

"""Finds the transcript of a session whose hooks did not name it, by the session's native id."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from holdfast.agents.registry import transcript_format
from holdfast.agents.transcripts.transcript_file import stat_transcript
from holdfast.domain.errors import BadInput

_NATIVE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def find_transcript(agent: str, native_id: str, environ: Mapping[str, str] | None = None) -> str | None:
    """The newest readable transcript of a session, or None."""
    format = transcript_format(agent)
    if format is None or not _NATIVE_ID.fullmatch(native_id):
        return None
    for path in format.search(native_id, os.environ if environ is None else environ):
        try:
            stat_transcript(str(path))
        except (OSError, BadInput):
            continue
        return str(path)
    return None

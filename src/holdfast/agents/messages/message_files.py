"""Files of messages: written below the home of the session's host, and handed to the agent as a path.

A sender stores the bytes first and names them by their digest; it never gives a path or a URL, and nothing is fetched.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from holdfast.agents.messages.session_message import SessionMessage
from holdfast.agents.messages.text import clean_text
from holdfast.domain.event import Event
from holdfast.domain.json_value import object_in, text_in
from holdfast.domain.text import clip_text
from holdfast.ports import in_thread
from holdfast.store.roles.blobs import Blobs

BLOB_MAX = 10 * 1024 * 1024
NAME_MAX = 80
TRANSCRIPT_MAX = 16 * 1024
TRANSCRIBE_S = 40.0
PATH_FIELD = "{path}"

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]+")

log = logging.getLogger("holdfast.messages")


def digest_of(event: Event) -> str | None:
    """The digest that a message of type voice or file names."""
    payload = event.payload if isinstance(event.payload, dict) else {}
    sha256 = text_in(object_in(payload, "payload"), "sha256")
    is_file = payload.get("message_type") in ("voice", "file")
    return sha256 if is_file and sha256 is not None and _DIGEST.fullmatch(sha256) else None


class MessageFiles:
    """`transcriber`: a command with its arguments; `{path}` among them is the file. Its output is the transcript."""

    def __init__(self, blobs: Blobs, folder: Path, transcriber: Sequence[str] = ()) -> None:
        self._blobs, self._folder, self._transcriber = blobs, folder, tuple(transcriber)

    async def attach(self, message: SessionMessage) -> SessionMessage:
        """The message with the path of its file. The same text in each attempt, so that it is recognized."""
        sha256 = digest_of(message.event)
        if sha256 is None:
            return message
        path = self._folder / file_name(message.event, sha256)
        if not path.exists():
            data = await self._blobs.get(sha256)
            if data is None:
                return replace(message, text=f"{message.text}\n(Its file is no longer stored.)")
            await in_thread("files", partial(write_file, path, data))
        text = f"{message.text}\nFile: {path}"
        transcript = await self._transcript(message.event, path)
        return replace(message, text=f"{text}\nTranscript:\n{transcript}" if transcript else text)

    async def _transcript(self, event: Event, path: Path) -> str:
        """What was said in a voice message. It is made once and kept beside the file."""
        payload = event.payload if isinstance(event.payload, dict) else {}
        if payload.get("message_type") != "voice" or not self._transcriber:
            return ""
        kept = path.with_name(path.name + ".txt")
        if not kept.exists():
            said = await transcribe(self._transcriber, path)
            await in_thread("files", partial(write_file, kept, said.encode()))
        return (await in_thread("files", kept.read_bytes)).decode("utf-8", "replace")


async def transcribe(command: Sequence[str], path: Path) -> str:
    """Run the configured command, without a shell and for a limited time. Empty if it fails, which is logged."""
    words = [word.replace(PATH_FIELD, str(path)) for word in command]
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        log.warning("the transcriber %s cannot be started: %s", words[0], error.strerror)
        return ""
    assert process.stdout is not None
    out, code = b"", 0
    try:
        async with asyncio.timeout(TRANSCRIBE_S):
            while len(out) < TRANSCRIPT_MAX and (part := await process.stdout.read(TRANSCRIPT_MAX - len(out))):
                out += part
            if len(out) < TRANSCRIPT_MAX:
                code = await process.wait()
    except TimeoutError:
        log.warning("the transcriber %s did not end in %g s", words[0], TRANSCRIBE_S)
        return ""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        while await process.stdout.read(TRANSCRIPT_MAX):  # asyncio sees the end of a process after that of its output
            pass
        await process.wait()
    if code != 0:
        log.warning("the transcriber %s ended with %d", words[0], code)
        return ""
    return clean_text(out.decode("utf-8", "replace"))


def file_name(event: Event, sha256: str) -> str:
    """A name made of the digest and the harmless part of the name that the sender gave."""
    payload = event.payload if isinstance(event.payload, dict) else {}
    given = (text_in(object_in(payload, "payload"), "name") or "").rpartition("/")[2]
    name = (clip_text(_NOT_IN_NAME.sub("_", given), NAME_MAX) or "").strip("._…")
    return f"{sha256[:16]}-{name}" if name else sha256[:16]


def write_file(path: Path, data: bytes) -> None:
    """Create a file that only this user can read: whole, or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
    os.rename(unfinished, path)

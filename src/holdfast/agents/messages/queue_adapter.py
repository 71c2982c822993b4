"""Delivery by the queue of an agent CLI itself: literal, durable, and never an answer to a question.

The text is an argument of the CLI's own command, since it takes no other input: while the command runs, other users of
the machine can see it in the list of processes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial

from holdfast.agents.messages.adapter import NotYet, Result, Sent, Task, Unknown
from holdfast.agents.messages.native_queue import NativeQueue
from holdfast.agents.messages.processes import is_resumed
from holdfast.domain.session import Session, SessionState
from holdfast.ports import in_thread

CALL_S = 20.0
COMPLAINT_MAX = 300


QueueOf = Callable[[str], NativeQueue | None]


class QueueAdapter:
    """`queue_of` gives the queue of a CLI, by its name."""

    name = "queue"
    literal = True

    def __init__(self, queue_of: QueueOf, path: str | None = None) -> None:
        self._queue_of, self._path = queue_of, path
        self._missing: set[str] = set()

    async def fits(self, session: Session) -> bool:
        queue = self._queue_of(session.agent)
        if queue is None or session.state is SessionState.CLOSED or session.agent in self._missing:
            return False
        if shutil.which(queue.program, path=self._path) is None:
            return False
        # A queue may be worked off without a terminal, and a session that has ended is not continued out of sight.
        is_open = session.state is not SessionState.ENDED
        return is_open or await in_thread("files", partial(is_resumed, queue.program, session.native_id))

    async def send(self, task: Task) -> Result:
        message, session, journal, trail = task.message, task.session, task.journal, task.trail
        if trail.sent_ms is not None:
            return Sent()
        if trail.submitting:
            return Unknown("the agent's queue was being filled when the process ended")
        queue = self._queue_of(session.agent)
        program = None if queue is None else shutil.which(queue.program, path=self._path)
        if queue is None or program is None:
            return NotYet("the agent's program is not installed here")
        trail = await journal.begin(message, trail, session, f"queue {session.agent}")
        await journal.submitting(message, trail)
        complaint = await self._run([program, *queue.words(session, message.text)], queue.environment(session))
        if complaint is None:
            return Sent()
        if queue.is_unknown(complaint):
            self._missing.add(session.agent)
        await journal.begin(message, trail, session, "")  # the command said that nothing was queued
        return NotYet(f"{queue.program} did not queue the message: {complaint}")

    async def _run(self, command: list[str], environment: Mapping[str, str]) -> str | None:
        """None, or why nothing was queued. A command that does not end in time is an error of unknown outcome."""
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE, env={**os.environ, **environment}, cwd="/",
        )  # fmt: skip
        try:
            async with asyncio.timeout(CALL_S):
                _, complaint = await process.communicate()
        except BaseException:
            if process.returncode is None:
                process.kill()
            raise
        if process.returncode == 0:
            return None
        text = " ".join(complaint[-4096:].decode("utf-8", "replace").split())
        return text[-COMPLAINT_MAX:] or f"it ended with status {process.returncode}"

"""Adoption: an agent session that has ended is resumed in a new tmux session, so that it can take its messages.

It happens only if the configuration allows it, and only if the agent's own hook reported the end, its pane does not
run it any more, and its folder exists and belongs to this user. Options that skip permissions are never added.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.agents.messages.tmux import Tmux, TmuxError, pane_of
from holdfast.domain.session import Session, SessionState
from holdfast.ports import Clock
from holdfast.store.roles.sessions import Sessions

STARTED_S = 15.0
AGAIN_MS = 5 * 60 * 1000
LOOK_S = 0.1
NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")

ResumeOf = Callable[[Session], Sequence[str] | None]
"""The command that resumes a session in a terminal; None if its CLI has none."""

log = logging.getLogger("holdfast.messages")


class Adoption:
    """`folder` holds the locks: two daemons must not start the same agent."""

    def __init__(
        self, sessions: Sessions, resume_of: ResumeOf, folder: Path, clock: Clock, socket: str | None = None
    ) -> None:
        self._sessions, self._resume_of, self._folder, self._clock = sessions, resume_of, folder, clock
        self._socket = socket
        self._tried_ms: dict[str, int] = {}

    async def adopt(self, session: Session) -> Session | None:
        """Resume the session and wait for its start. None: it was not resumed, or has not reported yet."""
        command = self._resume_of(session)
        if command is None or session.state is not SessionState.ENDED or not _is_own_folder(session.cwd):
            return None
        now_ms = self._clock.boot_ms()
        if now_ms - self._tried_ms.get(session.id, now_ms - AGAIN_MS) < AGAIN_MS or await self._runs(session):
            return None
        with _lock(self._folder / f"adopt-{NOT_IN_NAME.sub('_', session.id)}.lock") as locked:
            if not locked:
                return None
            self._tried_ms[session.id] = now_ms
            return await self._start(session, command)

    async def _runs(self, session: Session) -> bool:
        """Whether the agent still runs in its pane, or that cannot be said."""
        pane = pane_of(session)
        if pane is None:
            return False
        try:
            screen = await Tmux(pane.socket).look(pane)
        except TmuxError as error:
            return not error.gone
        return not screen.dead and screen.command == pane.command

    async def _start(self, session: Session, command: Sequence[str]) -> Session | None:
        name = f"holdfast-{NOT_IN_NAME.sub('_', session.id)}"[:100]
        try:
            await Tmux(self._socket).new_session(name, str(session.cwd), command)
        except TmuxError as error:
            log.warning("session %s was not resumed: %s", session.id, error)
            return None
        log.info("session %s had ended and was resumed in the tmux session %s", session.id, name)
        ends_ms = self._clock.boot_ms() + round(STARTED_S * 1000)
        while self._clock.boot_ms() < ends_ms:
            await asyncio.sleep(LOOK_S)
            found = await self._sessions.get(session.id)
            if found is not None and found.state is not SessionState.ENDED:
                return found
        return None


def find_command(words: Sequence[str]) -> list[str] | None:
    """The command with the full path of its program, or None if it is not installed."""
    program = shutil.which(words[0])
    return None if program is None else [program, *words[1:]]


def _is_own_folder(cwd: str | None) -> bool:
    if not cwd or not cwd.startswith("/"):
        return False
    try:
        return os.path.isdir(cwd) and os.stat(cwd).st_uid == os.geteuid()
    except OSError:
        return False


@contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Hold a lock that the system frees when this process ends. False: another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)

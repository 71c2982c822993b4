"""tmux: look at a pane, paste a text into it, press keys. Each call is one bounded command of the tmux server.

Every paste and every key press is checked by the server itself in the same command (`if-shell -F`): a paste into a dead
pane crashes tmux 3.3a with all its sessions, and a key pressed while the agent asks for a permission may grant it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.agents.messages.screen import Screen, parse_capture
from holdfast.domain.session import Session

if TYPE_CHECKING:
    import asyncio

CALL_S = 5.0
OUTPUT_MAX = 4 * 1024 * 1024

_PANE = re.compile(r"%[0-9]{1,9}")
_WORD = re.compile(r"[A-Za-z0-9_.+-]{1,100}")
_NOT_IN_FORMAT = re.compile(r"[{},#'\"\\;$]")
_FIELDS = (
    "pane_id", "pid", "pane_pid", "pane_dead", "pane_in_mode", "alternate_on", "cursor_flag", "cursor_x", "cursor_y",
    "@holdfast_pasted", "@holdfast_pressed", "pane_current_command", "pane_title",
)  # fmt: skip
_FORMAT = "\t".join(f"#{{{name}}}" for name in _FIELDS)


class TmuxError(Exception):
    """tmux does not run, did not answer in time, or has no such pane. `gone`: the pane surely does not exist."""

    def __init__(self, message: str, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


class Pane(NamedTuple):
    """A pane of one tmux server. `server` is its process id and `command` what ran in the pane when a hook came from
    there; None: not known."""

    socket: str
    id: str
    server: int | None = None
    command: str | None = None

    @property
    def name(self) -> str:
        return f"pane {self.id} of {self.socket}"


def pane_of(session: Session) -> Pane | None:
    """The pane that a session's row names, or None if it has no usable one."""
    socket, server, command = (session.facts.get(name) for name in ("tmux", "tmux_server", "pane_command"))
    if not session.pane or not _PANE.fullmatch(session.pane) or not isinstance(socket, str) or not socket:
        return None
    return Pane(
        socket,
        session.pane,
        server if isinstance(server, int) else None,
        command if isinstance(command, str) and _WORD.fullmatch(command) else None,
    )


class Questions(NamedTuple):
    """How a pane shows that a question is open: patterns for its visible lines and for its title."""

    lines: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()

    def open_in(self, screen: Screen) -> bool:
        return any(re.search(pattern, line.plain) for pattern in self.lines for line in screen.lines) or any(
            re.search(pattern, screen.title) for pattern in self.titles
        )


class Tmux:
    """The tmux server behind a socket; None: the user's usual one."""

    def __init__(self, socket: str | None, program: str = "tmux") -> None:
        self._command = (program, "-u", *(() if socket is None else ("-S", socket)))

    async def new_session(self, name: str, folder: str, command: Sequence[str]) -> None:
        """Run a command in a new session of that name. Its words are not read by a shell."""
        await self._run("new-session", "-d", "-s", _word(name), "-x", "160", "-y", "50", "-c", folder, "--", *command)

    async def look(self, pane: Pane) -> Screen:
        """The pane as it is now: its state and what it shows, from one moment."""
        answer = await self._run(
            "display-message", "-p", "-t", pane.id, _FORMAT, ";", "capture-pane", "-p", "-e", "-t", pane.id
        )  # fmt: skip
        first, _, picture = answer.partition("\n")
        values = first.split("\t", len(_FIELDS) - 1)
        if len(values) < len(_FIELDS) or values[0] != pane.id:
            raise TmuxError(f"tmux has no {pane.name}", gone=True)
        found = dict(zip(_FIELDS, values, strict=True))
        return Screen(
            server=int(found["pid"]),
            command=found["pane_current_command"],
            title=found["pane_title"],
            dead=found["pane_dead"] == "1",
            in_mode=found["pane_in_mode"] not in ("", "0"),
            cursor=(int(found["cursor_x"] or 0), int(found["cursor_y"] or 0)),
            pasted=found["@holdfast_pasted"],
            pressed=found["@holdfast_pressed"],
            lines=parse_capture(picture),
            process=int(found["pane_pid"] or 0),
        )

    async def paste(self, pane: Pane, screen: Screen, mark: str, text: str, questions: Questions) -> bool:
        """Paste a text if the pane is still as `screen` showed it and no question is open. False: nothing was pasted.

        `mark` stays in the pane (`Screen.pasted`), so that after a crash it is known whether the paste happened.
        """
        buffer, target = f"holdfast-{_word(mark)}", pane.id
        return await self._guarded(
            pane, screen, questions,
            f"set-option -p -t {target} @holdfast_pasted {mark} ; paste-buffer -p -r -d -b {buffer} -t {target}",
            f"delete-buffer -b {buffer}",
            before=("load-buffer", "-b", buffer, "-", ";"), input=text.encode(),
        )  # fmt: skip

    async def press(self, pane: Pane, screen: Screen, mark: str, keys: Sequence[str], questions: Questions) -> bool:
        """Press keys under the same conditions as a paste. False: nothing was pressed."""
        names = " ".join(_word(key) for key in keys)
        return await self._guarded(
            pane, screen, questions,
            f"set-option -p -t {pane.id} @holdfast_pressed {_word(mark)} ; send-keys -t {pane.id} {names}",
        )  # fmt: skip

    async def _guarded(
        self, pane: Pane, screen: Screen, questions: Questions, act: str, otherwise: str = "",
        before: Sequence[str] = (), input: bytes = b"",
    ) -> bool:  # fmt: skip
        refuse = f"{otherwise} ; display-message -p refused" if otherwise else "display-message -p refused"
        answer = await self._run(
            *before, "if-shell", "-F", "-t", pane.id, _guard(screen, questions), refuse,
            f"{act} ; display-message -p done", input=input,
        )  # fmt: skip
        return answer.strip() == "done"

    async def _run(self, *words: str, input: bytes = b"") -> str:
        import asyncio  # slow to import, and commands that read the facts of a terminal do not need it

        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE, env=environment, limit=OUTPUT_MAX,
            )  # fmt: skip
        except OSError as error:
            raise TmuxError(f"tmux cannot be started: {error.strerror}") from None
        try:
            async with asyncio.timeout(CALL_S):
                out, complaint = await process.communicate(input)
        except BaseException as error:
            _end(process)
            if isinstance(error, TimeoutError):
                raise TmuxError(f"tmux did not answer within {CALL_S:g} s") from None
            raise
        if process.returncode:
            message = complaint.decode("utf-8", "replace").strip() or f"tmux ended with status {process.returncode}"
            raise TmuxError(message, gone=_means_gone(message))
        return out.decode("utf-8", "replace")


def _guard(screen: Screen, questions: Questions) -> str:
    """A format that is true if the pane must not be touched.

    It is true if the pane is dead or in copy mode, if another program reads it or another server has its number, or if
    the visible text matches one of the questions.
    """
    conditions = [
        "#{pane_dead}",
        "#{pane_in_mode}",
        f"#{{!=:#{{pane_current_command}},{_word(screen.command)}}}",
        f"#{{!=:#{{pid}},{screen.server:d}}}",
        *(f"#{{C/r:{check_pattern(pattern)}}}" for pattern in questions.lines),
        *(f"#{{m/r:{check_pattern(pattern)},#{{pane_title}}}}" for pattern in questions.titles),
    ]
    guard = conditions.pop()
    while conditions:
        guard = f"#{{||:{conditions.pop()},{guard}}}"
    return guard


def check_pattern(pattern: str) -> str:
    """A pattern that means the same in a format of tmux and in Python; ValueError for any other."""
    if not pattern or _NOT_IN_FORMAT.search(pattern):
        raise ValueError(f"{pattern!r} cannot be used in a format of tmux")
    re.compile(pattern)
    return pattern


def _word(text: str) -> str:
    """A name that tmux does not interpret."""
    if not _WORD.fullmatch(text):
        raise TmuxError(f"{text[:80]!r} cannot be used in a tmux command")
    return text


def _means_gone(message: str) -> bool:
    """Whether an error says that the pane or its server does not exist, as opposed to one that says nothing."""
    return message.startswith(("no server running", "error connecting", "can't find", "no such"))


def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended by itself
        process.kill()

"""Environment: everything the installer reads that is not in a config file, such as the home folder and variables."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.agents.receiver import program, receiver
from holdfast.home import default_home, find_home

GUARD = ("/bin/sh", "-c", '"$@" 2>/dev/null || :', "holdfast")
"""A shell around the receiver. Hooks may outlive the receiver, and an interpreter whose script is missing exits with 2,
which makes an agent stop its work. The shell discards the message and exits with 0."""

_NAME = re.compile(r"[A-Za-z][\w.-]*")
_OWN = re.compile(r"(?:.*[/\\])?holdfast(?:[/\\]\w+){2}[/\\]receiver\.\w+")


@dataclass(frozen=True, slots=True)
class Environment:
    """The user's home, the variables, the project, and the interpreter. Tests pass their own."""

    home: Path
    env: Mapping[str, str]
    project: Path
    python: str
    program: tuple[str, ...]  # the command line that starts a receiver, without its options
    spool_home: str | None = None  # set if the receiver would not find Holdfast's home by itself
    platform: str = sys.platform

    def folder(self, variable: str, default: str) -> Path:
        """The folder that a variable names, or the default, relative to the home.

        >>> Environment(Path("/home/you"), {}, Path("/"), "python3", ()).folder("AGENT_HOME", ".agent")
        PosixPath('/home/you/.agent')
        """
        given = self.env.get(variable, "")
        if not given:
            return self.home / default
        return self.home / given[2:] if given.startswith("~/") else Path(given).absolute()

    def find_program(self, *names: str) -> str | None:
        """The path of the first of these programs that is on the PATH."""
        path = self.env.get("PATH", "")
        return next(filter(None, (shutil.which(name, path=path) for name in names)), None)

    def has_program(self, *names: str) -> bool:
        return self.find_program(*names) is not None

    @property
    def receiver(self) -> str:
        return self.program[-1]

    def command(self, agent: str, event: str | None = None, guarded: bool = True) -> list[str]:
        """The words of the receiver's command line. `guarded=False` is for CLIs that ignore the exit code."""
        guard = GUARD if guarded else ()
        home = () if self.spool_home is None else ("--home", self.spool_home)
        return [*guard, *self.program, "--agent", agent, *home, *(() if event is None else (event,))]

    def command_line(self, agent: str, event: str | None = None) -> str:
        """The command as one line, for CLIs that run hooks through a shell."""
        return shlex.join(self.command(agent, event))


def this_environment() -> Environment:
    """The environment of this process. A home that only this shell's variables name is passed to the receiver."""
    home = find_home().root
    return Environment(
        home=Path.home(),
        env=os.environ,
        project=find_project(Path.cwd()),
        python=sys.executable,
        program=python_receiver(),
        spool_home=None if home == default_home().root else str(home),
    )


def python_receiver() -> tuple[str, ...]:
    """The receiver that works everywhere, in the current interpreter."""
    return (sys.executable, "-I", "-S", str(Path(receiver.__file__).absolute()))


def fastest_receiver() -> tuple[str, ...]:
    """The fastest receiver that passed a trial on this machine."""
    return tuple(program.find_program())


def find_project(start: Path) -> Path:
    """The folder of the repository that contains `start`, or `start` itself."""
    start = start.absolute()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def is_own(words: Sequence[object]) -> bool:
    """Whether a command line is exactly the receiver's, with any interpreter and installation path.

    A user's script that calls the receiver does not count.

    >>> is_own(["/old/python", "-I", "-S", "/old/holdfast/agents/receiver/receiver.py", "--agent", "some-cli"])
    True
    """
    texts = [word for word in words if isinstance(word, str)]
    if len(texts) != len(words) or "--agent" not in texts:
        return False
    program = program_of(texts)
    names = texts[texts.index("--agent") + 1 :]
    if names[1:2] == ["--home"]:
        del names[1:3]
    return (
        len(program) in (4, 6)
        and _OWN.fullmatch(program[-1]) is not None
        and (tuple(program[1:3]) == ("-I", "-S") or _OWN.fullmatch(program[2]) is not None)
        and 1 <= len(names) <= 2
        and all(map(_NAME.fullmatch, names))
    )


def program_of(words: Sequence[str]) -> Sequence[str]:
    """The part of our command line that starts the receiver, without the guard and the options."""
    start = len(GUARD) if tuple(words[: len(GUARD)]) == GUARD else 0
    return words[start : words.index("--agent")]


def split_line(line: object) -> list[str]:
    """The words of a shell command line; empty if it is not a valid one."""
    if not isinstance(line, str):
        return []
    try:
        return shlex.split(line)
    except ValueError:
        return []


def find_missing(words: Sequence[str]) -> str | None:
    """The interpreter or script of our command line that does not exist any more, if any."""
    program = program_of(words)
    interpreters = [program[0], *program[4:5]]
    scripts = [word for word in program if _OWN.fullmatch(word)]
    missing = [word for word in interpreters if not os.access(word, os.X_OK)]
    return next(iter(missing + [word for word in scripts if not os.path.isfile(word)]), None)

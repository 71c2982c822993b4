"""What wiring has to know about a machine: whose home, which variables, which interpreter, which receiver."""

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
from holdfast.home import find_home, usual_home

# An interpreter whose script is gone ends with 2, and that tells an agent to stop what it does. So a shell stands
# around the receiver, which is gone some day while the hooks are still there: nothing is said, and the end is 0.
GUARD = ("/bin/sh", "-c", '"$@" 2>/dev/null || :', "holdfast")

_NAME = re.compile(r"[A-Za-z][\w.-]*")
_OWN = re.compile(r"(?:.*[/\\])?holdfast(?:[/\\]\w+){2}[/\\]receiver\.\w+")


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything wiring reads that is not in a file, so that tests can bring their own."""

    home: Path
    env: Mapping[str, str]
    project: Path
    python: str
    program: tuple[str, ...]  # the words that start a receiver
    spool_home: str | None = None  # where the receiver would not find Holdfast's home by itself
    platform: str = sys.platform

    def folder(self, variable: str, default: str) -> Path:
        """The folder a variable names, or the default under the home.

        >>> Environment(Path("/home/you"), {}, Path("/"), "python3", ()).folder("AGENT_HOME", ".agent")
        PosixPath('/home/you/.agent')
        """
        given = self.env.get(variable, "")
        if not given:
            return self.home / default
        return self.home / given[2:] if given.startswith("~/") else Path(given).absolute()

    def find_program(self, *names: str) -> str | None:
        """Where the first of these programs is on the PATH."""
        path = self.env.get("PATH", "")
        return next(filter(None, (shutil.which(name, path=path) for name in names)), None)

    def has_program(self, *names: str) -> bool:
        return self.find_program(*names) is not None

    @property
    def receiver(self) -> str:
        return self.program[-1]

    def words(self, agent: str, event: str | None = None, guarded: bool = True) -> list[str]:
        """The command line of the receiver, word by word; without its guard where nobody looks at how it ends."""
        guard = GUARD if guarded else ()
        home = () if self.spool_home is None else ("--home", self.spool_home)
        return [*guard, *self.program, "--agent", agent, *home, *(() if event is None else (event,))]

    def line(self, agent: str, event: str | None = None) -> str:
        """The same for a CLI that runs commands through a shell, whichever that is."""
        return shlex.join(self.words(agent, event))


def this_environment() -> Environment:
    """The machine of this process. A home that only this shell's variables name is told to the receiver."""
    home = find_home().root
    return Environment(
        home=Path.home(),
        env=os.environ,
        project=find_project(Path.cwd()),
        python=sys.executable,
        program=slow_program(),
        spool_home=None if home == usual_home().root else str(home),
    )


def slow_program() -> tuple[str, ...]:
    """The receiver that works everywhere, in the interpreter that runs now."""
    return (sys.executable, "-I", "-S", str(Path(receiver.__file__).absolute()))


def find_program() -> tuple[str, ...]:
    """The quickest receiver that was seen to work here, by a trial."""
    return tuple(program.find_program())


def find_project(start: Path) -> Path:
    """The folder of the repository around `start`, or `start` itself."""
    start = start.absolute()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def is_own(words: Sequence[object]) -> bool:
    """Whether a command line is the receiver's, whichever interpreter and installation it names.

    Exactly ours: a script of the user's that calls the receiver is the user's.

    >>> is_own(["/old/python", "-I", "-S", "/old/holdfast/agents/receiver/receiver.py", "--agent", "claude"])
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
    """The words of a command line of ours that start the receiver."""
    start = len(GUARD) if tuple(words[: len(GUARD)]) == GUARD else 0
    return words[start : words.index("--agent")]


def split_line(line: object) -> list[str]:
    """A shell's command line as words; nothing where it is none we would write."""
    if not isinstance(line, str):
        return []
    try:
        return shlex.split(line)
    except ValueError:
        return []


def find_gone(words: Sequence[str]) -> str | None:
    """An interpreter or a script of a command line of ours that is gone."""
    program = program_of(words)
    interpreters = [program[0], *program[4:5]]
    scripts = [word for word in program if _OWN.fullmatch(word)]
    gone = [word for word in interpreters if not os.access(word, os.X_OK)]
    return next(iter(gone + [word for word in scripts if not os.path.isfile(word)]), None)

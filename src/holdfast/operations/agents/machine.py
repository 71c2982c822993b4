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

import holdfast
from holdfast.home import find_home, usual_home

RECEIVER = "ingress/hook/receiver.py"
FLAGS = ("-I", "-S")

_OWN = re.compile(r"(?:.*[/\\])?holdfast[/\\]ingress[/\\]hook[/\\]receiver\.\w+")


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything wiring reads that is not in a file, so that tests can bring their own."""

    home: Path
    env: Mapping[str, str]
    project: Path
    python: str
    receiver: str
    spool_home: str | None = None  # where the receiver would not find Holdfast's home by itself
    platform: str = sys.platform

    def folder(self, variable: str, default: str) -> Path:
        """The folder a variable names, or the default under the home.

        >>> Machine(Path("/home/you"), {}, Path("/"), "python3", "receiver.py").folder("CODEX_HOME", ".codex")
        PosixPath('/home/you/.codex')
        """
        given = self.env.get(variable, "")
        if not given:
            return self.home / default
        return self.home / given[2:] if given.startswith("~/") else Path(given).absolute()

    def has_program(self, *names: str) -> bool:
        return any(shutil.which(name, path=self.env.get("PATH", "")) for name in names)

    def words(self, agent: str, event: str | None = None) -> list[str]:
        """The command line of the receiver, word by word."""
        named = [] if self.spool_home is None else ["--home", self.spool_home]
        return [self.python, *FLAGS, self.receiver, "--agent", agent, *named, *([] if event is None else [event])]

    def line(self, agent: str, event: str | None = None) -> str:
        """The same for a CLI that runs commands through a shell."""
        return shlex.join(self.words(agent, event))


def this_machine(project: Path | None = None) -> Machine:
    """The machine of this process. A home that only this shell's variables name is told to the receiver."""
    home = find_home().root
    return Machine(
        home=Path.home(),
        env=os.environ,
        project=find_project(project or Path.cwd()),
        python=sys.executable,
        receiver=str(Path(holdfast.__file__).absolute().parent / RECEIVER),
        spool_home=None if home == usual_home().root else str(home),
    )


def find_project(start: Path) -> Path:
    """The folder of the repository around `start`, or `start` itself."""
    start = start.absolute()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def is_own(words: Sequence[object]) -> bool:
    """Whether a command line is the receiver's, whichever interpreter and installation it names.

    Exactly ours: a script of the user's that calls the receiver is the user's.

    >>> is_own(["/old/python", "-I", "-S", "/old/holdfast/ingress/hook/receiver.py", "--agent", "claude"])
    True
    """
    texts = [word for word in words if isinstance(word, str)]
    return (
        len(texts) == len(words)
        and 6 <= len(texts) <= 9
        and tuple(texts[1:3]) == FLAGS
        and _OWN.fullmatch(texts[3]) is not None
        and texts[4] == "--agent"
        and (len(texts) <= 7 or texts[6] == "--home")
    )


def split_line(line: object) -> list[str]:
    """A shell's command line as words; nothing where it is none we would write."""
    if not isinstance(line, str):
        return []
    try:
        return shlex.split(line)
    except ValueError:
        return []


def find_gone(words: Sequence[str]) -> str | None:
    """The interpreter or the receiver of a command line of ours, if it is gone."""
    if not os.access(words[0], os.X_OK):
        return words[0]
    return None if os.path.isfile(words[3]) else words[3]

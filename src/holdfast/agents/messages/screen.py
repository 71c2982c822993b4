"""Screen: what one look at a pane shows. Text in faint style is kept apart: it is a hint of the program, not typed."""

from __future__ import annotations

import re
from typing import NamedTuple

_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_OTHER = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|[\x0e\x0f]")
_GREYS = frozenset({"8", *(str(number) for number in range(236, 251))})
"""The numbers of grey in the palette of 256 colors."""


class Line(NamedTuple):
    """One line of a pane. `plain` is all of it, `typed` without faint or grey text."""

    plain: str
    typed: str


class Screen(NamedTuple):
    """A pane at one moment. `pasted` and `pressed` are the marks that Holdfast left in it. `process` is the first
    process of the pane: the agent, or the shell that it was started from."""

    server: int
    command: str
    title: str
    dead: bool
    in_mode: bool
    cursor: tuple[int, int]
    pasted: str
    pressed: str
    lines: tuple[Line, ...]
    process: int = 0

    @property
    def text(self) -> str:
        return "\n".join(line.plain for line in self.lines)


def parse_capture(picture: str) -> tuple[Line, ...]:
    r"""The lines of `capture-pane -e`. A style lasts until another one begins, also over the end of a line.

    >>> parse_capture("\x1b[1m>\x1b[0m hello \x1b[2mTry\nit\x1b[0m now")
    (Line(plain='> hello Try', typed='> hello'), Line(plain='it now', typed='   now'))
    """
    lines: list[Line] = []
    faint = grey = False
    for line in picture.split("\n"):
        plain: list[str] = []
        typed: list[str] = []
        line, at = _OTHER.sub("", line), 0
        for match in _SGR.finditer(line):
            _add(line[at : match.start()], plain, typed, hint=faint or grey)
            at = match.end()
            faint, grey = _style(match[1], faint, grey)
        _add(line[at:], plain, typed, hint=faint or grey)
        lines.append(Line("".join(plain).rstrip(), "".join(typed).rstrip()))
    return tuple(lines)


def _add(text: str, plain: list[str], typed: list[str], hint: bool) -> None:
    plain.append(text)
    typed.append(" " * len(text) if hint else text)


def _style(codes: str, faint: bool, grey: bool) -> tuple[bool, bool]:
    """Whether text after this sequence is faint, and whether it is grey."""
    numbers = re.split("[;:]", codes or "0")
    at = 0
    while at < len(numbers):
        number = numbers[at]
        if number in ("", "0"):
            faint = grey = False
        elif number == "2":
            faint = True
        elif number in ("1", "22"):
            faint = False
        elif number == "38" and numbers[at + 1 : at + 2] == ["5"]:
            grey = "".join(numbers[at + 2 : at + 3]) in _GREYS
            at += 2
        elif number == "38" and numbers[at + 1 : at + 2] == ["2"]:
            grey = _is_grey(numbers[at + 2 : at + 5])
            at += 4
        elif number == "48":
            at += 2 if numbers[at + 1 : at + 2] == ["5"] else 4
        elif re.fullmatch("3[0-79]|9[0-7]", number):
            grey = number == "90"
        at += 1
    return faint, grey


def _is_grey(channels: list[str]) -> bool:
    """Three channels that hardly differ, neither black nor white."""
    values = [int(channel) for channel in channels if channel.isdigit()]
    return len(values) == 3 and max(values) - min(values) <= 40 and 60 <= max(values) <= 190

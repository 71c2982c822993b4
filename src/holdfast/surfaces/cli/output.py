"""What commands print: aligned columns for people, the REST object with `--json`.

Control characters in data are escaped, so that a payload cannot move the cursor or set the window title.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

import click

from holdfast.domain.errors import HoldfastError
from holdfast.domain.json_value import KnownJson
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.text_width import text_width, wrap

T = TypeVar("T")

_CONTROL = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([01][0-9a-f])")


def show(answer: T, as_json: bool, render: Callable[[T], None]) -> None:
    """Print the answer as JSON, or call `render` to print it for people."""
    if as_json:
        echo_json(_encode(answer))
        return
    try:
        render(answer)
    except KeyError as error:  # such as after an upgrade, while the daemon still runs the old version
        raise HoldfastError(f"the answer has no {error}; the daemon is of another version: restart it") from error


def _encode(answer: object) -> KnownJson:
    if isinstance(answer, dict | list):  # an answer of the REST API is JSON already
        return answer
    from holdfast.operations.answers.encode import encode

    return encode(answer)


def echo(text: str = "") -> None:
    _echo(text, err=False)


def show_lines(lines: Iterable[str]) -> None:
    for line in lines:
        echo(line)


def echo_wrapped(text: str, prefix: str = "") -> None:
    """Print a paragraph after a prefix. In a terminal it is divided between words and aligned behind the prefix."""
    if not terminal.is_terminal():
        echo(prefix + text)
        return
    indent = text_width(prefix)
    for number, line in enumerate(wrap(text, max(20, terminal.width() - indent))):
        echo((" " * indent if number else prefix) + line)


def warn(text: str) -> None:
    """Print a message on stderr, so that stdout holds only the answer."""
    _echo(f"holdfast: {visible(text)}", err=True)


def _echo(text: str, err: bool) -> None:
    """A closed pipe, as in `holdfast … | head`, is no failure: the command continues and prints nothing more."""
    try:
        click.echo(text, err=err)
    except BrokenPipeError:
        silence(2 if err else 1)


def silence(descriptor: int) -> None:
    """Send stdout (1) or stderr (2) to /dev/null, including what Python flushes at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def echo_json(answer: object) -> None:
    echo(encode_json(answer, indent=2))


def encode_json(answer: object, indent: int | None = None) -> str:
    """JSON that is safe in a terminal, on one line unless it is indented."""
    text_is_safe = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(answer, indent=indent, ensure_ascii=not text_is_safe)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def visible(text: str) -> str:
    r"""Escape control characters.

    >>> visible("red \x1b[31m alert\n")
    'red \\x1b[31m alert\\n'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cell(value: object) -> str:
    r"""A value on one line. Control characters are written the same way in JSON and in plain text.

    >>> cell({"text": "\x1b[31m"})
    '{"text": "\\x1b[31m"}'
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return _CONTROL.sub(r"\1\\x\2", visible(json.dumps(value, ensure_ascii=False))) if value else "-"
    return visible(str(value))


def colored(text: str, column: str | None, word: str) -> str:
    """The text in the color of a word, if the column has colors and the terminal shows them. None: a heading."""
    if not terminal.has_color():
        return text
    if column is None:
        return click.style(text, bold=True)
    color = terminal.COLORS.get(word) if column in terminal.COLORED else None
    return text if color is None else click.style(text, fg=color)


def plural(count: int, noun: str) -> str:
    """
    >>> plural(1, "event"), plural(2000, "event")
    ('1 event', '2,000 events')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

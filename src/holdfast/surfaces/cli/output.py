"""What the commands print: aligned plain columns for people, the REST object for programs. Never a colour.

Whatever came from outside is made visible first: a payload must not be able to move a cursor or retitle a window.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

CELL_MAX = 60

_CONTROL = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([01][0-9a-f])")


def show(answer: Any, as_json: bool, people: Callable[[Any], None]) -> None:
    """The answer itself for programs, or what `people` makes of it."""
    if as_json:
        say_json(answer)
    else:
        people(answer)


def say(text: str = "") -> None:
    _echo(text, err=False)


def warn(text: str) -> None:
    """A message beside the answer: on stderr, so that stdout stays what was asked for."""
    _echo(f"holdfast: {visible(text)}", err=True)


def _echo(text: str, err: bool) -> None:
    """A reader that has gone, as in `holdfast … | head`, is no failure: the command goes on and prints nothing more."""
    try:
        click.echo(text, err=err)
    except BrokenPipeError:
        silence(2 if err else 1)


def silence(descriptor: int) -> None:
    """Let what is still written to stdout or stderr vanish, also what Python flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def say_json(answer: Any) -> None:
    text_is_safe = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(answer, indent=2, ensure_ascii=not text_is_safe)
    say("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def visible(text: str) -> str:
    r"""Control characters as their escapes.

    >>> visible("red \x1b[31m alert\n")
    'red \\x1b[31m alert\\n'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cell(value: Any) -> str:
    r"""A value on one line, with one way to write control characters wherever they stand.

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


def show_table(items: Sequence[Mapping[str, Any]], columns: Sequence[str], none: str = "none") -> None:
    """One line each, under the names of the columns."""
    if not items:
        say(none)
        return
    rows = [[name.replace("_", " ").upper() for name in columns]]
    rows += [[_short(cell(item.get(name))) for name in columns] for item in items]
    widths = [max(len(row[at]) for row in rows) for at in range(len(columns))]
    for row in rows:
        say("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def show_page(page: Mapping[str, Any], columns: Sequence[str]) -> None:
    show_table(page["items"], columns)
    if page["next"] is not None:
        say(f"(more: --after {visible(str(page['next']))})")


def show_fields(shape: Mapping[str, Any], columns: Sequence[str] | None = None) -> None:
    """Every field on its line; lists of objects as tables below, with these columns or all that say something."""
    below = {name: value for name, value in shape.items() if _is_rows(value)}
    flat = {name: value for name, value in shape.items() if name not in below}
    width = max((len(name) for name in flat), default=0)
    for name, value in flat.items():
        say(f"{name.replace('_', ' ').ljust(width)}  {cell(value)}".rstrip())
    for name, rows in below.items():
        say(f"\n{name.replace('_', ' ')}:")
        show_table(rows, columns or [key for key in rows[0] if any(row.get(key) is not None for row in rows)])


def many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _short(text: str) -> str:
    return text if len(text) <= CELL_MAX else text[: CELL_MAX - 1] + "…"

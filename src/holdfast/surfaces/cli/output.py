"""What commands print: aligned plain columns for people, the REST object with `--json`. No colors.

Control characters in data are escaped, so that a payload cannot move the cursor or set the window title.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import click

from holdfast.domain.json_value import Json

T = TypeVar("T")

CELL_MAX = 60

_CONTROL = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([01][0-9a-f])")


def show(answer: T, as_json: bool, render: Callable[[T], None]) -> None:
    """Print the answer as JSON, or call `render` to print it for people."""
    if as_json:
        echo_json(_encode(answer))
    else:
        render(answer)


def _encode(answer: object) -> Json:
    if isinstance(answer, dict | list):  # an answer of the REST API is JSON already
        return answer
    from holdfast.operations.answers.encode import encode

    return encode(answer)


def echo(text: str = "") -> None:
    _echo(text, err=False)


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
    text_is_safe = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(answer, indent=2, ensure_ascii=not text_is_safe)
    echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def visible(text: str) -> str:
    r"""Escape control characters.

    >>> visible("red \x1b[31m alert\n")
    'red \\x1b[31m alert\\n'
    """
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


def show_table(items: Sequence[Mapping[str, Json]], columns: Sequence[str], empty: str = "none") -> None:
    """One line per item under the column names, or the text `empty`."""
    if not items:
        echo(empty)
        return
    rows = [[name.replace("_", " ").upper() for name in columns]]
    rows += [[_short(cell(item.get(name))) for name in columns] for item in items]
    widths = [max(len(row[at]) for row in rows) for at in range(len(columns))]
    for row in rows:
        echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def show_page(page: Mapping[str, Json], columns: Sequence[str]) -> None:
    show_table(page["items"], columns)
    if page["next"] is not None:
        echo(f"(more: --after {visible(str(page['next']))})")


def show_fields(answer: Mapping[str, Json], columns: Sequence[str] | None = None) -> None:
    """One line per field. Lists of objects follow as tables with `columns`, by default every column with a value."""
    tables = {name: value for name, value in answer.items() if _is_rows(value)}
    fields = {name: value for name, value in answer.items() if name not in tables}
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        echo(f"{name.replace('_', ' ').ljust(width)}  {cell(value)}".rstrip())
    for name, rows in tables.items():
        echo(f"\n{name.replace('_', ' ')}:")
        show_table(rows, columns or [key for key in rows[0] if any(row.get(key) is not None for row in rows)])


def plural(count: int, noun: str) -> str:
    """
    >>> plural(1, "event"), plural(2000, "event")
    ('1 event', '2,000 events')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _short(text: str) -> str:
    return text if len(text) <= CELL_MAX else text[: CELL_MAX - 1] + "…"

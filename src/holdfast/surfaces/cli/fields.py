"""The fields of one answer: a line each, lists of objects as tables below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.domain.json_value import KnownJson
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.output import cell, colored, echo, echo_wrapped
from holdfast.surfaces.cli.table import show_table


def show_fields(
    answer: Mapping[str, KnownJson], columns: Sequence[str] | None = None, spare: Sequence[str] = ()
) -> None:
    """One line per field. Lists of objects follow as tables with `columns`, by default every column with a value.

    A terminal does not show fields without a value.
    """
    tables = {name: value for name, value in answer.items() if _is_rows(value)}
    fields = {name: value for name, value in answer.items() if name not in tables}
    if terminal.is_terminal():
        fields = {
            name: value
            for name, value in terminal.without_own_streams(fields).items()
            if value not in (None, "", [], {})
        }
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        show_field(name, value, width)
    for name, rows in tables.items():
        echo(f"\n{name.replace('_', ' ')}:")
        show_table(
            rows, columns or [key for key in rows[0] if any(_is_plain(row.get(key)) for row in rows)], spare=spare
        )


def show_field(name: str, value: KnownJson, width: int) -> None:
    """One field. `width`: of the names."""
    prefix = f"{name.replace('_', ' ').ljust(width)}  "
    if isinstance(value, str) and terminal.has_color():
        colors = colored(value, name, value)
        if colors != value:
            echo(prefix + colors)
            return
    echo_wrapped(_text(name, value), prefix)


def _text(name: str, value: KnownJson) -> str:
    text = cell(value)
    if isinstance(value, str) and name.endswith("_at") and terminal.is_terminal():
        return f"{text} ({terminal.relative(value)})"
    if isinstance(value, dict) and value and all(_is_plain(each) for each in value.values()):
        return ", ".join(f"{key} {cell(each)}" for key, each in value.items())
    if isinstance(value, list) and value and all(_is_plain(each) for each in value):
        return ", ".join(cell(each) for each in value)
    return text


def _is_plain(value: KnownJson) -> bool:
    return value is not None and not isinstance(value, dict | list)


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)

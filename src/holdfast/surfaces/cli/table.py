"""Tables: one line per item under the column names, fitted to the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.domain.json_value import KnownJson
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.output import cell, colored, show_lines, visible
from holdfast.surfaces.cli.text_width import cut, cut_middle, pad, text_width

GAP = "  "
CELL_MAX = 60
COLUMN_MIN = 6
READABLE = 14
"""A narrower column of texts hardly tells anything; before that, columns are left out."""
WHOLE_MAX = 12
"""A column that is at most so wide is not cut: counts, states, times."""
ENDS_MATTER = frozenset({"address", "stream", "cwd", "path", "url", "transcript", "store", "chain"})
HEADINGS = {
    "event_type": "type", "contract_id": "contract", "event_id": "event", "oldest_pending_seconds": "oldest",
    "source_system": "system", "source_table": "table", "action_type": "action", "actor_id": "actor",
    "chain_seq": "seq",
}  # fmt: skip
"""Shorter headings in a terminal. Those of times lose their `at`."""


def show_table(
    items: Sequence[Mapping[str, KnownJson]],
    columns: Sequence[str],
    empty: str = "none",
    spare: Sequence[str] = (),
) -> None:
    """Print the items, or the text `empty`. `spare`: columns that a narrow terminal may leave out, the first first."""
    show_lines(table_lines(items, columns, empty, spare))


def show_page(page: Mapping[str, KnownJson], columns: Sequence[str], spare: Sequence[str] = ()) -> None:
    show_lines(page_lines(page, columns, spare))


def page_lines(page: Mapping[str, KnownJson], columns: Sequence[str], spare: Sequence[str] = ()) -> list[str]:
    more = [] if page["next"] is None else [f"(more: --after {visible(str(page['next']))})"]
    return table_lines(page["items"], columns, spare=spare) + more


def table_lines(
    items: Sequence[Mapping[str, KnownJson]],
    columns: Sequence[str],
    empty: str = "none",
    spare: Sequence[str] = (),
) -> list[str]:
    if not items:
        return [empty]
    if not terminal.is_terminal():
        rows = [[_short(cell(item.get(name))) for name in columns] for item in items]
        return _lines(columns, [_plain(name) for name in columns], rows, None)
    return _fitted(items, columns, spare)


def _fitted(items: Sequence[Mapping[str, KnownJson]], columns: Sequence[str], spare: Sequence[str]) -> list[str]:
    cells: dict[str, list[str]] = {name: [] for name in columns}
    for item in map(terminal.without_own_streams, items):
        for name in columns:
            cells[name].append(cell(terminal.shorten(name, item.get(name))))
    cells = {name: texts for name, texts in cells.items() if any(text not in ("", "-") for text in texts)} or cells
    fitted = _fit_cells(cells, spare)
    rows = [list(row) for row in zip(*(cells[name] for name in fitted), strict=True)]
    return _lines(list(fitted), [_heading(name) for name in fitted], rows, list(fitted.values()))


def _fit_cells(cells: Mapping[str, Sequence[str]], spare: Sequence[str] = ()) -> dict[str, int]:
    widths = {name: max(text_width(_heading(name)), *map(text_width, texts)) for name, texts in cells.items()}
    return fit(widths, terminal.width(), spare)


class AppendableTable:
    """A table to which rows are added later. Its columns are as wide as the first items need."""

    def __init__(self, items: Sequence[Mapping[str, KnownJson]], columns: Sequence[str]) -> None:
        self._in_terminal = terminal.is_terminal()
        rows = [self._cells(item, columns) for item in items]
        cells = {name: [row[at] for row in rows] for at, name in enumerate(columns)}
        if self._in_terminal:
            self._widths = _fit_cells(cells)
        else:
            self._widths = {name: max(map(text_width, (name, *texts))) for name, texts in cells.items()}

    @property
    def heading(self) -> str:
        return self._line([_heading(name) if self._in_terminal else _plain(name) for name in self._widths], False)

    def row(self, item: Mapping[str, KnownJson]) -> str:
        return self._line(self._cells(item, list(self._widths)), True)

    def _cells(self, item: Mapping[str, KnownJson], columns: Sequence[str]) -> list[str]:
        if not self._in_terminal:
            return [_short(cell(item.get(name))) for name in columns]
        shown = terminal.without_own_streams(item)
        return [cell(terminal.clock_time(name, shown.get(name))) for name in columns]

    def _line(self, row: Sequence[str], is_item: bool) -> str:
        names, widths = list(self._widths), list(self._widths.values())
        if not self._in_terminal:
            widths = [max(width, text_width(text)) for width, text in zip(widths, row, strict=True)]
        return _join(names if is_item else None, row, widths)


def _heading(name: str) -> str:
    return (HEADINGS.get(name) or name.removesuffix("_at")).replace("_", " ").upper()


def fit(widths: Mapping[str, int], total: int, spare: Sequence[str] = ()) -> dict[str, int]:
    """The widths of the columns that are shown.

    Spare columns are left out as long as the others are hard to read. Then the widest texts are cut first, and ids,
    which other commands take, last.

    >>> fit({"id": 10, "title": 40, "cwd": 30}, 60), fit({"id": 10, "title": 40, "cwd": 30}, 30, ["cwd"])
    ({'id': 10, 'title': 23, 'cwd': 23}, {'id': 10, 'title': 18})
    """
    fitted = dict(widths)
    for name in spare:
        if _needed(_cut_columns(fitted, total, READABLE)) <= total:
            break
        fitted.pop(name, None)
    fitted = _cut_columns(fitted, total, READABLE)
    fitted = _cut_columns(fitted, total, COLUMN_MIN)
    while _needed(fitted) > total and len(fitted) > 1:
        fitted.popitem()
    return {name: min(width, total) for name, width in fitted.items()}


def _cut_columns(widths: Mapping[str, int], total: int, least: int) -> dict[str, int]:
    """The widths after the widest columns of texts were cut, none of them below `least`; they may still be too wide."""
    fitted = dict(widths)
    whole = WHOLE_MAX if least == READABLE else 0
    while (over := _needed(fitted) - total) > 0:
        texts = {
            name: width
            for name, width in fitted.items()
            if width > max(least, whole) and (least != READABLE or not terminal.is_id(name))
        }
        if not texts:
            break
        widest = max(texts.values())
        *others, last = (name for name, width in texts.items() if width == widest)
        next_widest = max([width for width in texts.values() if width < widest], default=least)
        fitted[last] -= 1 if others else min(over, widest - next_widest)
    return fitted


def _needed(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def _lines(
    columns: Sequence[str], headings: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int] | None
) -> list[str]:
    if widths is None:
        widths = [max(text_width(row[at]) for row in (headings, *rows)) for at in range(len(columns))]
    return [_join(columns if number else None, row, widths) for number, row in enumerate((headings, *rows))]


def _join(columns: Sequence[str] | None, row: Sequence[str], widths: Sequence[int]) -> str:
    """One line. `columns`: the names, for colors and for how a text is cut; None: these are the headings."""
    texts = []
    for at, (text, width) in enumerate(zip(row, widths, strict=True)):
        name = None if columns is None else columns[at]
        short = cut_middle(text, width) if name in ENDS_MATTER else cut(text, width)
        texts.append(colored(short if at == len(row) - 1 else pad(short, width), name, text))
    return GAP.join(texts).rstrip()


def _plain(name: str) -> str:
    return name.replace("_", " ").upper()


def _short(text: str) -> str:
    return text if len(text) <= CELL_MAX else text[: CELL_MAX - 1] + "…"

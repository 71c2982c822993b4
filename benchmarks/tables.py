"""Tables, cells and plots of the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks import svg
from benchmarks.measure import Figure, Results

EARLIER = Path(__file__).with_name("earlier.txt")


def plain(results: Results, prefix: str, head: str) -> str:
    """A table of all figures of one part, with earlier values where known."""
    names = [name for name in results.figures if name.startswith(prefix)]
    if not names:
        return ""
    before = earlier()
    rows = [(name.replace(".", ": ", 1), cell(results, name), before.get(name, "")) for name in names]
    if not any(row[2] for row in rows):
        return f"{head}\n\n" + table(("what", "figure"), [row[:2] for row in rows])
    return f"{head}\n\n" + table(("what", "figure", "before"), rows)


def earlier() -> dict[str, str]:
    """Figures of earlier code, one per line: `name | figure | commit, date`. A goal's name is `goal` and its id."""
    found = {}
    for line in EARLIER.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, figure, when = (part.strip() for part in line.split("|"))
            found[name] = f"{figure} ({when})"
    return found


def bars(
    results: Results, plots: Path, name: str, title: str, prefix: str, *, suffix: str = "", without: Sequence[str] = ()
) -> str:
    """A plot of all figures with this prefix and suffix, except those named in `without`."""
    found = [
        (key.removeprefix(prefix).removesuffix(suffix), figure)
        for key, figure in results.figures.items()
        if key.startswith(prefix) and key.endswith(suffix)
    ]
    rows = sorted((row for row in found if row[0] not in without), key=lambda row: -row[1].median)
    if not rows:
        return ""
    plot(plots / f"{name}.svg", svg.bars(title, rows))
    return f"![{title}]({plots.name}/{name}.svg)"


def plot(path: Path, drawn: str) -> None:
    path.write_text(drawn, encoding="utf-8")


def cell(results: Results, name: str) -> str:
    figure = results.figures.get(name)
    return "–" if figure is None else shown_figure(figure)


def shown_figure(figure: Figure) -> str:
    """
    >>> shown_figure(Figure((1.0, 2.0, 3.0), "ms"))
    '2.00 ms (1.00 to 3.00)'
    """
    spread = f" ({amount(figure.low)} to {amount(figure.high)})" if len(figure.values) > 1 else ""
    return f"{amount(figure.median)} {figure.unit}{spread}"


def amount(value: float) -> str:
    """
    >>> amount(25000), amount(0.7), amount(12.34), amount(-0.5)
    ('25,000', '0.70', '12.3', '-0.50')
    """
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(part).replace("|", "/") for part in row) + " |" for row in rows])

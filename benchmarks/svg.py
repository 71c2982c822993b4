"""Plots as plain SVG: bars to compare rates, lines to show growth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from benchmarks.measure import Figure

WIDTH = 760
OURS, OTHER, INK, GRID = "#1f6f8b", "#b8c4cc", "#1c2429", "#dde3e7"
LINES = (OURS, "#c8553d", "#6a994e", "#7b5ea7")
FONT = "font-family='system-ui,sans-serif'"


class Line(NamedTuple):
    name: str
    points: Sequence[tuple[float, float]]


def bars(title: str, rows: Sequence[tuple[str, Figure]]) -> str:
    """One bar per row, with the range as a thin line. Holdfast is highlighted."""
    left, right, top, step = 210, 110, 44, 28
    height = top + step * len(rows) + 12
    most = max((figure.high for _, figure in rows), default=1.0) or 1.0
    scale = (WIDTH - left - right) / most
    parts = [_text(12, 26, title, 16, weight="600")]
    for number, (name, figure) in enumerate(rows):
        y = top + number * step
        color = OURS if name.startswith("holdfast") else OTHER
        parts.append(_text(left - 10, y + 15, name, 13, anchor="end"))
        parts.append(f"<rect x='{left}' y='{y + 3}' width='{figure.median * scale:.1f}' height='16' fill='{color}'/>")
        parts.append(_stroke(left + figure.low * scale, y + 11, left + figure.high * scale, y + 11, INK))
        parts.append(_text(left + figure.high * scale + 8, y + 15, f"{short(figure.median)} {figure.unit}", 12))
    return _page(height, title, parts)


def lines(title: str, x_title: str, unit: str, drawn: Sequence[Line], *, over_time: bool = False) -> str:
    """Lines over a logarithmic x axis, or over time; y starts at 0, so that constant values look constant."""
    left, right, top, bottom, height = 80, 170, 48, 52, 340
    xs = sorted({x for line in drawn for x, _ in line.points})
    most = max((y for line in drawn for _, y in line.points), default=1.0) * 1.1 or 1.0
    place = float if over_time else math.log10
    low, high = place(xs[0]), place(xs[-1])

    def at(x: float, y: float) -> tuple[float, float]:
        across = (place(x) - low) / (high - low) if high > low else 0.5
        return left + across * (WIDTH - left - right), height - bottom - y / most * (height - top - bottom)

    parts = [
        _text(12, 26, title, 16, weight="600"),
        _text((left + WIDTH - right) / 2, height - 10, x_title, 12, "middle"),
    ]
    for number in range(5):
        y = most * number / 4
        parts.append(_stroke(left, at(xs[0], y)[1], WIDTH - right, at(xs[0], y)[1], GRID))
        parts.append(_text(left - 8, at(xs[0], y)[1] + 4, f"{short(y)} {unit}", 11, "end"))
    ticks = [low + (high - low) * number / 6 for number in range(7)] if over_time else xs
    parts += [_text(at(x, 0)[0], height - bottom + 18, short(x), 11, "middle") for x in ticks]
    for color, line in zip(LINES * (1 + len(drawn) // len(LINES)), drawn, strict=False):
        spots = [at(x, y) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        parts.append(f"<polyline points='{path}' fill='none' stroke='{color}' stroke-width='2'/>")
        if not over_time:
            parts += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{color}'/>" for x, y in spots]
        parts.append(_text(spots[-1][0] + 10, spots[-1][1] + 4, line.name, 12, color=color))
    return _page(height, title, parts)


def short(value: float) -> str:
    """
    >>> short(1234567), short(45_300), short(950), short(3.14159), short(0)
    ('1.23 M', '45.3 k', '950', '3.14', '0')
    """
    for limit, sign in ((1e6, " M"), (1e4, " k")):
        if value >= limit:
            return f"{value / (1e6 if sign == ' M' else 1e3):.3g}{sign}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _text(
    x: float, y: float, words: str, size: int, anchor: str = "start", *, weight: str = "400", color: str = INK
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' font-weight='{weight}' "
        f"text-anchor='{anchor}' fill='{color}' {FONT}>{escape(words)}</text>"
    )


def _stroke(x1: float, y1: float, x2: float, y2: float, color: str) -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{color}'/>"


def _page(height: int, title: str, parts: Sequence[str]) -> str:
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' role='img'>"
    back = f"<title>{escape(title)}</title><rect width='{WIDTH}' height='{height}' fill='#ffffff'/>"
    return "\n".join([head, back, *parts, "</svg>"]) + "\n"

"""How much time has passed, for people: one rough unit."""

from __future__ import annotations

from datetime import datetime


def span(seconds: float) -> str:
    """
    >>> span(200)
    '3 min'
    """
    whole = max(0, int(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def ago(then: str, now_s: float) -> str:
    """
    >>> ago("2026-01-31T12:00:00.000Z", 1769861000.0)
    '3 min ago'
    """
    passed_s = now_s - datetime.fromisoformat(then).timestamp()
    return f"in {span(-passed_s)}" if passed_s <= -1 else f"{span(passed_s)} ago"

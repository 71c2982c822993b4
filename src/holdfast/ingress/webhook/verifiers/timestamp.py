"""The signed time. A time too far from now may be a replay."""

from __future__ import annotations

from holdfast.domain.errors import BadInput, Unverified
from holdfast.domain.event import parse_time

_DIGITS_MAX = {"s": 12, "ms": 15}
_NAMES = {"s": "Unix seconds", "ms": "Unix milliseconds", "iso": "RFC 3339"}


def check_time(text: str, what: str, unit: str, tolerance_s: int, now_s: int) -> None:
    """Raise `Unverified` unless the text is a time within the tolerance."""
    moment_s = _seconds(text, unit)
    if moment_s is None:
        raise Unverified(f"{what} is not a time in {_NAMES[unit]}")
    if abs(now_s - moment_s) > tolerance_s:
        raise Unverified(f"{what} is more than {tolerance_s} seconds from now: a replay, or a wrong clock")


def _seconds(text: str, unit: str) -> int | None:
    if unit == "iso":
        try:
            return parse_time(text, "it") // 1000
        except (BadInput, OverflowError, ValueError):
            return None
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS_MAX[unit]:
        return None
    return int(text) if unit == "s" else int(text) // 1000

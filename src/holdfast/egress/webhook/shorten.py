"""Shorten a text to a receiver's limit, in the unit that the receiver counts (bytes, code points, UTF-16 units)."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

ELLIPSIS = "…"
_BACK_MAX = 16  # characters dropped at most, so that the cut falls between two graphemes
_JOINERS = frozenset("\u200c\u200d")
_TONES = range(0x1F3FB, 0x1F400)  # skin tones, which change the emoji before them
_FLAGS = range(0x1F1E6, 0x1F200)  # a flag is a pair of these

Cost = Callable[[str], int]


def code_points(char: str) -> int:
    """
    >>> code_points("😀")
    1
    """
    return 1


def utf16_units(char: str) -> int:
    """
    >>> utf16_units("😀")
    2
    """
    return 2 if ord(char) > 0xFFFF else 1


def utf8_bytes(char: str) -> int:
    """
    >>> utf8_bytes("😀")
    4
    """
    point = ord(char)
    return 1 if point < 0x80 else 2 if point < 0x800 else 3 if point < 0x10000 else 4


def shorten(text: str, limit: int, cost: Cost = code_points) -> str:
    """The text if its cost is within the limit, else as much of its start as fits together with an ellipsis.

    >>> shorten("Grüße aus Köln", 8, utf8_bytes)
    'Grü…'
    """
    used, cut, fits = 0, None, limit - sum(map(cost, ELLIPSIS))
    for at, char in enumerate(text):
        used += cost(char)
        if cut is None and used > fits:
            cut = at
        if used > limit:
            return text[: _boundary(text, cut or 0)] + ELLIPSIS
    return text


def _boundary(text: str, cut: int) -> int:
    """The nearest position before `cut` that does not split a character from its accents, or an emoji.

    A very long run of accents is cut in the middle: the receiver's limit comes first.
    """
    for at in range(cut, max(0, cut - _BACK_MAX), -1):
        if not _joined(text[at - 1], text[at]):
            return at
    return cut


def _joined(before: str, after: str) -> bool:
    if before in _JOINERS or after in _JOINERS or ord(after) in _TONES:
        return True
    return unicodedata.category(after).startswith("M") or (ord(before) in _FLAGS and ord(after) in _FLAGS)

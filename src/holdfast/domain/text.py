"""Texts made short and safe: for error messages, log lines and bounded fields."""

from __future__ import annotations

REPR_MAX = 80


def short_repr(value: object) -> str:
    """A value for an error message: ASCII only, so safe in a terminal, and at most 80 characters.

    >>> short_repr("naïve\\x1b[31m")
    "'na\\\\xefve\\\\x1b[31m'"
    """
    text = ascii(value)
    return text if len(text) <= REPR_MAX else text[: REPR_MAX - 3] + "..."


def clip_text(text: str | None, limit: int) -> str | None:
    """The text within `limit` characters. A longer one ends with an ellipsis.

    >>> clip_text("abcdef", 4)
    'abc…'
    """
    return text if text is None or len(text) <= limit else text[: limit - 1] + "…"

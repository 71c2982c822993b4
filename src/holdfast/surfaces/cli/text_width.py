"""Text in terminal columns, of which some characters take two and some none: measure, cut, pad and wrap it."""

from __future__ import annotations

from collections.abc import Iterator


def text_width(text: str) -> int:
    """
    >>> text_width("tea"), text_width("お茶")
    (3, 4)
    """
    return len(text) if text.isascii() else sum(map(_char_width, text))


def cut(text: str, width: int) -> str:
    """The beginning of a text that does not fit.

    >>> cut("abcdef", 4), cut("abcd", 4), cut("お茶です", 5)
    ('abc…', 'abcd', 'お茶…')
    """
    if text_width(text) <= width:
        return text
    return _first(text, width - 1) + "…" if width > 0 else ""


def cut_middle(text: str, width: int) -> str:
    """Both ends of a text that does not fit: for paths and addresses, which differ at their ends.

    >>> cut_middle("session:gadget-3f6c0a44", 13)
    'sessio…6c0a44'
    """
    if text_width(text) <= width:
        return text
    if width < 8:
        return cut(text, width)
    half = (width - 1) // 2
    return f"{_first(text, width - 1 - half)}…{_first(text[::-1], half)[::-1]}"


def pad(text: str, width: int) -> str:
    return text + " " * (width - text_width(text))


def wrap(text: str, width: int, divide: bool = False) -> list[str]:
    """The lines of a text, divided between words. `divide`: also a word that is longer than a line.

    >>> wrap("one two three", 7), wrap("abcdefgh", 5, divide=True)
    (['one two', 'three'], ['abcde', 'fgh'])
    """
    lines, line = [], ""
    for word in _words(text, width) if divide else text.split():
        if line and text_width(line) + 1 + text_width(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def _words(text: str, width: int) -> Iterator[str]:
    for word in text.split():
        rest = word
        while text_width(rest) > width:
            part = _first(rest, width) or rest[0]
            yield part
            rest = rest[len(part) :]
        yield rest


def _first(text: str, width: int) -> str:
    """As much of the beginning as fits."""
    if text.isascii():
        return text[:width]
    used = 0
    for place, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:place]
    return text


def _char_width(char: str) -> int:
    if char.isascii():
        return 1
    from unicodedata import combining, east_asian_width

    return 0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1

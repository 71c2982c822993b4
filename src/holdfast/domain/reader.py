"""Reader: a named reader of the streams that match a pattern. Its position in each stream is a cursor."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.domain.contract import matches_wildcard
from holdfast.domain.errors import BadInput
from holdfast.domain.event import check_name
from holdfast.domain.text import short_repr

BEGINNING, NOW = "beginning", "now"
STARTS = (BEGINNING, NOW)
PATTERN_MAX = 200

_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of all streams that match a pattern.

    `start`: a new cursor begins before the first stored event of its stream, or before the event that is new now.
    """

    name: str
    pattern: str
    start: str = BEGINNING

    def matches(self, stream: str) -> bool:
        return matches_wildcard(stream, self.pattern)

    @property
    def prefix(self) -> str:
        """The text that every matching stream begins with.

        >>> Reader("projection", "run:*").prefix
        'run:'
        """
        found = _WILDCARD.search(self.pattern)
        return self.pattern if found is None else self.pattern[: found.start()]


def check_reader(name: object, pattern: object, start: object = BEGINNING) -> Reader:
    """A reader with all parts checked. Raises BadInput."""
    if start not in STARTS:
        raise BadInput(f"start must be one of {', '.join(STARTS)}, not {short_repr(start)}")
    return Reader(check_name(name, "reader"), check_pattern(pattern), str(start))


def check_pattern(pattern: object) -> str:
    """A pattern of stream names, such as `run:*`."""
    if not isinstance(pattern, str) or not 0 < len(pattern) <= PATTERN_MAX or not pattern.isprintable():
        raise BadInput(
            f"streams must be a pattern of 1 to {PATTERN_MAX} characters such as run:*, not {short_repr(pattern)}"
        )
    return pattern

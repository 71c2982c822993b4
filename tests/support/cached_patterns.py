"""Keeps the strategies that Hypothesis makes of regular expressions.

It makes them again for each use, and the pattern of a name, which lists every character that cannot be printed, takes
ten seconds.
"""

from __future__ import annotations

import re
from typing import Any

from hypothesis.strategies import SearchStrategy
from hypothesis.strategies._internal import regex

_make = regex.base_regex_strategy
_made: dict[tuple[object, ...], SearchStrategy[Any]] = {}


def install() -> None:
    regex.base_regex_strategy = _kept  # type: ignore[assignment]


def _kept(pattern: re.Pattern[Any], *, parsed: Any = None, alphabet: Any) -> SearchStrategy[Any]:
    allowed = None if alphabet is None else regex.unwrap_strategies(alphabet).intervals.intervals
    key = (pattern.pattern, pattern.flags, allowed)
    if key not in _made:
        _made[key] = _make(pattern, parsed=parsed, alphabet=alphabet)
    return _made[key]

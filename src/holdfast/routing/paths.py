"""The criteria of a contract as keys that can be looked up.

A key is a kind, a field and a text, such as (EXACT, TYPE, "order.placed") or (SUFFIX, "file", ".pdf"). A path is
a criterion as keys: a matching event has at least one of them. Every path of a contract is necessary, none is
sufficient: they find contracts that may match, and the contract itself decides.
"""

from __future__ import annotations

from functools import lru_cache

from holdfast.domain.contract import Contract, Criterion

# Cheapest to look up first. A PATTERN has no text that can be looked up, so it is evaluated on the event.
EXACT, PREFIX, SUFFIX, PRESENT, INNER, PATTERN = range(6)
SOURCE, TYPE = 0, 1
WIDTHS = (192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
RUNS_MAX = 4

Field = int | str  # SOURCE, TYPE, or the name of a property
Key = tuple[int, Field, str]
Path = tuple[Key, ...]


def paths_of(contract: Contract) -> list[Path]:
    """Every path of a contract, in no particular order. A contract without paths may match any event."""
    found: list[Path] = []
    if contract.source_criterion is not None:
        found += _paths(SOURCE, contract.source_criterion)
    if contract.type_criterion is not None:
        found += _paths(TYPE, contract.type_criterion)
    for name, criterion in contract.properties.items():
        found += _paths(name, criterion)
    return found


def _paths(field: Field, criterion: Criterion) -> list[Path]:
    match, pattern = criterion.match, criterion.pattern
    if not criterion.required:
        return []
    if match is None and pattern is None:
        parts: tuple[tuple[int, str], ...] = ((PRESENT, ""),)
    else:
        parts = fixed_parts(pattern) if pattern is not None else ()
    # Every event has a source and a type: only a property may be absent.
    found: list[Path] = [((kind, field, text),) for kind, text in parts if kind != PRESENT or isinstance(field, str)]
    if isinstance(match, str):
        found.append(((EXACT, field, match),))
    elif match is not None:
        found.append(tuple([(EXACT, field, text) for text in dict.fromkeys(match)]))
    return found


@lru_cache(maxsize=4096)
def fixed_parts(pattern: str) -> tuple[tuple[int, str], ...]:
    """The fixed parts of a pattern, each as a kind and a text.

    >>> fixed_parts("order.*.failed")
    ((1, 'order.'), (2, '.failed'))
    """
    runs = _runs(pattern)
    if len(runs) == 1:
        return ((EXACT, runs[0]),)
    first, *inner, last = runs
    parts = [(kind, text) for kind, text in ((PREFIX, first), (SUFFIX, last)) if text]
    for run in sorted(filter(None, inner), key=len, reverse=True)[:RUNS_MAX]:
        width = next(width for width in WIDTHS if width <= len(run))
        parts += dict.fromkeys([(INNER, run[:width]), (INNER, run[-width:])])
    if parts:
        return tuple(parts)
    return ((PRESENT, ""),) if not pattern.strip("*") else ((PATTERN, pattern),)


def _runs(pattern: str) -> list[str]:
    """The fixed texts before, between and after the wildcards. A class of one character is fixed text."""
    runs, at = [""], 0
    while at < len(pattern):
        char, size = pattern[at], 1
        if char == "[" and (end := pattern.find("]", at + (3 if pattern[at + 1 : at + 2] == "!" else 2))) > 0:
            size = end + 1 - at
        if size == 3 or (size == 1 and char not in "*?"):
            runs[-1] += pattern[at + size // 2]
        else:
            runs.append("")
        at += size
    return runs

"""What an event must hold for a contract to want it, as keys that can be looked up.

A key is a kind, a field and a text, such as (EXACT, TYPE, "order.placed") or (SUFFIX, "file", ".pdf"). A path is a
criterion said in keys: the event must hold one of them. Every path of a contract is necessary, none is sufficient:
they lead to contracts that may want an event, and the contract itself decides.
"""

from __future__ import annotations

from functools import lru_cache

from holdfast.domain.contract import Contract, Criterion

# Cheapest to look up first. PATTERN is the exception: nothing in it can be looked up, so it is tried on the event.
EXACT, PREFIX, SUFFIX, PRESENT, INNER, PATTERN = range(6)
SOURCE, TYPE = 0, 1
WIDTHS = (192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
RUNS_MAX = 4

Field = int | str  # SOURCE, TYPE, or the name of a property
Key = tuple[int, Field, str]
Path = tuple[Key, ...]


def paths_of(contract: Contract) -> list[Path]:
    """Every path of a contract, in no special order. None at all: it may want anything."""
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
        marks: tuple[tuple[int, str], ...] = ((PRESENT, ""),)
    else:
        marks = marks_of(pattern) if pattern is not None else ()
    # Every event has a source and a type: only a property may be absent.
    found: list[Path] = [((kind, field, text),) for kind, text in marks if kind != PRESENT or isinstance(field, str)]
    if isinstance(match, str):
        found.append(((EXACT, field, match),))
    elif match is not None:
        found.append(tuple([(EXACT, field, text) for text in dict.fromkeys(match)]))
    return found


@lru_cache(maxsize=4096)
def marks_of(pattern: str) -> tuple[tuple[int, str], ...]:
    """What a text must show to match a pattern, each as a kind and a text.

    >>> marks_of("order.*.failed")
    ((1, 'order.'), (2, '.failed'))
    """
    runs = _runs(pattern)
    if len(runs) == 1:
        return ((EXACT, runs[0]),)
    first, *inner, last = runs
    marks = [(kind, text) for kind, text in ((PREFIX, first), (SUFFIX, last)) if text]
    for run in sorted(filter(None, inner), key=len, reverse=True)[:RUNS_MAX]:
        width = next(width for width in WIDTHS if width <= len(run))
        marks += dict.fromkeys([(INNER, run[:width]), (INNER, run[-width:])])
    if marks:
        return tuple(marks)
    return ((PRESENT, ""),) if not pattern.strip("*") else ((PATTERN, pattern),)


def _runs(pattern: str) -> list[str]:
    """The plain texts before, between and after the wildcards; a class of one character is plain."""
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

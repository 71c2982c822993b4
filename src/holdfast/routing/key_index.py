"""The keys of an event that the contract index uses: its values, split into prefixes, suffixes and parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from holdfast.domain.contract import texts_of
from holdfast.routing.paths import EXACT, INNER, PATTERN, PREFIX, PRESENT, SOURCE, SUFFIX, TYPE, Field, Key


class KeyIndex:
    """The keys by which the nodes of the contract index divide, each with the number of nodes that use it."""

    def __init__(self) -> None:
        self._uses: dict[Key, int] = {}
        self._lengths_of: dict[Field, _Lengths] = {}

    def add(self, key: Key) -> None:
        uses = self._uses[key] = self._uses.get(key, 0) + 1
        if uses == 1 and key[0] != PATTERN:
            lengths = self._lengths_of.get(key[1])
            if lengths is None:
                lengths = self._lengths_of[key[1]] = _Lengths()
            lengths.change(key, 1)

    def drop(self, key: Key) -> None:
        self._uses[key] -= 1
        if not self._uses[key]:
            del self._uses[key]
            if key[0] != PATTERN and self._lengths_of[key[1]].change(key, -1):
                del self._lengths_of[key[1]]

    def of(self, source: str, type: str, properties: Mapping[str, object]) -> set[Key]:
        """The keys of an event that are in use."""
        found: set[Key] = set()
        if not self._lengths_of:
            return found
        self._look(SOURCE, source, found)
        self._look(TYPE, type, found)
        for name, value in properties.items():
            if value is not None:
                self._look(name, value, found)
        return found

    def _look(self, field: Field, value: object, found: set[Key]) -> None:
        lengths = self._lengths_of.get(field)
        if lengths is None:
            return
        keys: list[Key] = [(PRESENT, field, "")]
        for text in texts_of(value):
            size = len(text)
            keys.append((EXACT, field, text))
            keys += [(PREFIX, field, text[:length]) for length in lengths.prefixes if length <= size]
            keys += [(SUFFIX, field, text[-length:]) for length in lengths.suffixes if length <= size]
            for width in lengths.widths:
                keys += [(INNER, field, text[at : at + width]) for at in range(size - width + 1)]
        uses = self._uses
        found.update([key for key in keys if key in uses])


class _Lengths:
    """The lengths of prefixes, suffixes and inner parts that are in use for one field."""

    __slots__ = ("_lengths", "_number", "prefixes", "suffixes", "widths")

    def __init__(self) -> None:
        self._number = 0
        self._lengths: Counter[tuple[int, int]] = Counter()
        self.prefixes: list[int] = []
        self.suffixes: list[int] = []
        self.widths: list[int] = []

    def change(self, key: Key, by: int) -> bool:
        """Count one key more or less. Returns whether none is left."""
        kind, _, text = key
        self._number += by
        if kind not in (EXACT, PRESENT):
            in_use = {PREFIX: self.prefixes, SUFFIX: self.suffixes, INNER: self.widths}[kind]
            self._lengths[kind, len(text)] += by
            number = self._lengths[kind, len(text)]
            if by > 0 and number == 1:
                in_use.append(len(text))
            elif number == 0:
                in_use.remove(len(text))
        return self._number == 0

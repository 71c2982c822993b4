"""The index: the contracts that may want an event, found without asking every one of them.

Contracts stand in a tree. Each goes down by its own paths, the rarest first, and only where many stand together: a node
keeps the first few as they are and divides when it overflows. So an event meets few contracts that do not want it,
however many there are. Whoever is met is asked itself (`Contract.matches`): the index may be too generous, never wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from holdfast.domain.contract import HIDDEN_SOURCES, Contract, Criterion
from holdfast.routing.key_index import KeyIndex
from holdfast.routing.paths import PATTERN, SOURCE, TYPE, Field, Key, Path, paths_of

LEAF = 8  # so many contracts are asked one by one rather than told apart
DEPTH_MAX = 8  # and by no more than so many paths
PLACES_MAX = 128  # at most so many places for one contract: lists of values multiply them


class IndexEntry(NamedTuple):
    """A contract, all its paths, and those by which it goes down the tree."""

    contract: Contract
    paths: list[Path]
    route: list[Path]


class ContractIndex:
    def __init__(self, contracts: Iterable[Contract] = ()) -> None:
        self._counts: Counter[Key] = Counter()
        self._entries: dict[str, IndexEntry] = {}
        self._keys = KeyIndex()
        # Apart, so that an event of a hidden source does not meet those that never want it.
        self._named, self._open = _Node(), _Node()
        known = [(contract, paths_of(contract)) for contract in contracts]
        for _, paths in known:
            self._count(paths, 1)
        for contract, paths in known:
            self._place(contract, paths)

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, contract: Contract) -> None:
        """Add a contract, or replace the one of that id."""
        self.remove(contract.id)
        paths = paths_of(contract)
        self._count(paths, 1)
        self._place(contract, paths)

    def remove(self, id: str) -> None:
        entry = self._entries.pop(id, None)
        if entry is not None:
            self._count(entry.paths, -1)
            self._root(entry.contract).remove(entry, 0, self._keys)

    def matching(self, source: str, type: str, properties: Mapping[str, Any], accepted_at_ms: int) -> list[Contract]:
        """The contracts that want an event, by id."""
        return [
            contract
            for contract in self.candidates(source, type, properties)
            if contract.matches(source, type, properties, accepted_at_ms)
        ]

    def candidates(self, source: str, type: str, properties: Mapping[str, Any]) -> list[Contract]:
        """Every contract that wants such an event, by id, and a few others."""
        asked = _Asked(source, type, properties, self._keys.of(source, type, properties))
        found: dict[str, IndexEntry] = {}
        self._named.collect(asked, found)
        if source not in HIDDEN_SOURCES:
            self._open.collect(asked, found)
        return [found[id].contract for id in sorted(found)]

    def _root(self, contract: Contract) -> _Node:
        return self._open if contract.source_criterion is None else self._named

    def _place(self, contract: Contract, paths: list[Path]) -> None:
        entry = self._entries[contract.id] = IndexEntry(contract, paths, self._route(paths))
        self._root(contract).add(entry, 0, self._keys)

    def _route(self, paths: list[Path]) -> list[Path]:
        """The rarest first; among the rare ones those that are cheap to look up."""
        route: list[Path] = []
        places = 1
        for path in sorted(paths, key=self._weight):
            if len(route) < DEPTH_MAX and places * len(path) <= PLACES_MAX:
                places *= len(path)
                route.append(path)
        return route

    def _weight(self, path: Path) -> tuple[bool, int, int]:
        counts = self._counts
        number = sum([counts[key] for key in path])
        kind = path[0][0] if path else 0
        return kind == PATTERN, number if number > LEAF else 0, kind

    def _count(self, paths: list[Path], by: int) -> None:
        counts = self._counts
        for path in paths:
            for key in path:
                counts[key] += by
                if not counts[key]:
                    del counts[key]


class _Asked:
    """One event while it goes through the tree. A pattern is tried on it once, however many contracts have it."""

    __slots__ = ("_properties", "_source", "_tried", "_type", "keys")

    def __init__(self, source: str, type: str, properties: Mapping[str, Any], keys: set[Key]) -> None:
        self._source, self._type, self._properties, self.keys = source, type, properties, keys
        self._tried: dict[Key, bool] = {}

    def matches(self, key: Key) -> bool:
        known = self._tried.get(key)
        if known is None:
            known = self._tried[key] = Criterion(pattern=key[2]).passes(self._value(key[1]))
        return known

    def _value(self, field: Field) -> Any:
        if isinstance(field, str):
            return self._properties.get(field)
        return {SOURCE: self._source, TYPE: self._type}[field]


class _Node:
    """Contracts that stay here, and those that went further: by a key, or by a pattern that must be tried.

    Below a key that only one contract has stands its entry itself: most keys are such, and nodes are large.
    """

    __slots__ = ("_branches", "_divided", "_patterns", "_rest")

    def __init__(self) -> None:
        self._rest: dict[str, IndexEntry] = {}
        self._branches: dict[Key, _Node | IndexEntry] = {}
        self._patterns: dict[Key, _Node | IndexEntry] = {}
        self._divided = False

    @property
    def is_empty(self) -> bool:
        return not (self._rest or self._branches or self._patterns)

    def add(self, entry: IndexEntry, depth: int, keys: KeyIndex) -> None:
        if self._divided and depth < len(entry.route):
            for key in dict.fromkeys(entry.route[depth]):  # a pattern may hold the same piece twice
                self._pass_on(entry, key, depth + 1, keys)
            return
        self._rest[entry.contract.id] = entry
        if not self._divided and len(self._rest) > LEAF:
            self._divided = True
            here, self._rest = self._rest, {}
            for each in here.values():
                self.add(each, depth, keys)

    def _pass_on(self, entry: IndexEntry, key: Key, depth: int, keys: KeyIndex) -> None:
        below = self._patterns if key[0] == PATTERN else self._branches
        there = below.get(key)
        if there is None:
            below[key] = entry
            keys.add(key)
            return
        if isinstance(there, IndexEntry):
            first, there = there, _Node()
            below[key] = there
            there.add(first, depth, keys)
        there.add(entry, depth, keys)

    def remove(self, entry: IndexEntry, depth: int, keys: KeyIndex) -> None:
        if self._rest.pop(entry.contract.id, None) is not None or depth == len(entry.route):
            return
        for key in dict.fromkeys(entry.route[depth]):
            below = self._patterns if key[0] == PATTERN else self._branches
            there = below.get(key)
            if isinstance(there, _Node):
                there.remove(entry, depth + 1, keys)
                over = there.is_empty
            else:  # an entry with a wish that nothing can fulfil may stand nowhere, and another in this place by now
                over = there is not None and there.contract.id == entry.contract.id
            if over:
                del below[key]
                keys.drop(key)

    def collect(self, asked: _Asked, found: dict[str, IndexEntry]) -> None:
        if self._rest:
            found.update(self._rest)
        below = [self._branches[key] for key in self._branches.keys() & asked.keys] if self._branches else []
        if self._patterns:
            below += [there for key, there in self._patterns.items() if asked.matches(key)]
        for there in below:
            if isinstance(there, IndexEntry):
                found[there.contract.id] = there
            else:
                there.collect(asked, found)

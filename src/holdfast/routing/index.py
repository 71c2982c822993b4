"""The contract index: finds the contracts that may match an event without checking every one.

Contracts are kept in a tree. Each is placed along its own paths, the rarest first. A node keeps the first few contracts
as a list and divides when it overflows. So an event is compared with few contracts that do not match, however many
there are. `Contract.matches` decides on each candidate: the index may return too many, never too few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.domain.contract import HIDDEN_SOURCES, Contract, Criterion
from holdfast.routing.key_index import KeyIndex
from holdfast.routing.paths import PATTERN, SOURCE, TYPE, Field, Key, Path, paths_of

LEAF = 8  # contracts in a node before it divides
DEPTH_MAX = 8  # paths by which one contract is placed
PLACES_MAX = 128  # places of one contract in the tree: lists of values multiply them


class IndexEntry(NamedTuple):
    """A contract, all its paths, and the paths by which it is placed in the tree."""

    contract: Contract
    paths: list[Path]
    route: list[Path]


class ContractIndex:
    def __init__(self, contracts: Iterable[Contract] = ()) -> None:
        self._counts: Counter[Key] = Counter()
        self._entries: dict[str, IndexEntry] = {}
        self._keys = KeyIndex()
        # Two trees: events of a hidden source skip contracts without a source criterion, which never match them.
        self._named, self._open = _Node(), _Node()
        with_paths = [(contract, paths_of(contract)) for contract in contracts]
        for _, paths in with_paths:
            self._count(paths, 1)
        for contract, paths in with_paths:
            self._place(contract, paths)

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, contract: Contract) -> None:
        """Add a contract, or replace the one with the same id."""
        self.remove(contract.id)
        paths = paths_of(contract)
        self._count(paths, 1)
        self._place(contract, paths)

    def remove(self, id: str) -> None:
        entry = self._entries.pop(id, None)
        if entry is not None:
            self._count(entry.paths, -1)
            self._root(entry.contract).remove(entry, 0, self._keys)

    def matching(self, source: str, type: str, properties: Mapping[str, object], accepted_at_ms: int) -> list[Contract]:
        """The contracts that match an event, ordered by id."""
        return [
            contract
            for contract in self.candidates(source, type, properties)
            if contract.matches(source, type, properties, accepted_at_ms)
        ]

    def candidates(self, source: str, type: str, properties: Mapping[str, object]) -> list[Contract]:
        """Every contract that matches such an event, and a few that do not, ordered by id."""
        lookup = _Lookup(source, type, properties, self._keys.of(source, type, properties))
        found: dict[str, IndexEntry] = {}
        self._named.collect(lookup, found)
        if source not in HIDDEN_SOURCES:
            self._open.collect(lookup, found)
        return [found[id].contract for id in sorted(found)]

    def _root(self, contract: Contract) -> _Node:
        return self._open if contract.source_criterion is None else self._named

    def _place(self, contract: Contract, paths: list[Path]) -> None:
        entry = self._entries[contract.id] = IndexEntry(contract, paths, self._route(paths))
        self._root(contract).add(entry, 0, self._keys)

    def _route(self, paths: list[Path]) -> list[Path]:
        """The rarest paths first; among rare ones, those that are cheap to look up."""
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


class _Lookup:
    """One event during a lookup. Each pattern is evaluated once, however many contracts use it."""

    __slots__ = ("_properties", "_source", "_tried", "_type", "keys")

    def __init__(self, source: str, type: str, properties: Mapping[str, object], keys: set[Key]) -> None:
        self._source, self._type, self._properties, self.keys = source, type, properties, keys
        self._tried: dict[Key, bool] = {}

    def matches(self, key: Key) -> bool:
        known = self._tried.get(key)
        if known is None:
            known = self._tried[key] = Criterion(pattern=key[2]).passes(self._value(key[1]))
        return known

    def _value(self, field: Field) -> object:
        if isinstance(field, str):
            return self._properties.get(field)
        return {SOURCE: self._source, TYPE: self._type}[field]


class _Node:
    """The contracts kept here, and those placed below: by a key, or by a pattern that must be evaluated.

    A key with a single contract maps to its entry instead of a node: most keys are such, and nodes use more memory.
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
            for key in dict.fromkeys(entry.route[depth]):  # a pattern may contain the same piece twice
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
        child = below.get(key)
        if child is None:
            below[key] = entry
            keys.add(key)
            return
        if isinstance(child, IndexEntry):
            first, child = child, _Node()
            below[key] = child
            child.add(first, depth, keys)
        child.add(entry, depth, keys)

    def remove(self, entry: IndexEntry, depth: int, keys: KeyIndex) -> None:
        if self._rest.pop(entry.contract.id, None) is not None or depth == len(entry.route):
            return
        for key in dict.fromkeys(entry.route[depth]):
            below = self._patterns if key[0] == PATTERN else self._branches
            child = below.get(key)
            if isinstance(child, _Node):
                child.remove(entry, depth + 1, keys)
                over = child.is_empty
            else:  # the entry may be stored nowhere (its criterion cannot match), and another may be here now
                over = child is not None and child.contract.id == entry.contract.id
            if over:
                del below[key]
                keys.drop(key)

    def collect(self, lookup: _Lookup, found: dict[str, IndexEntry]) -> None:
        if self._rest:
            found.update(self._rest)
        below = [self._branches[key] for key in self._branches.keys() & lookup.keys] if self._branches else []
        if self._patterns:
            below += [child for key, child in self._patterns.items() if lookup.matches(key)]
        for child in below:
            if isinstance(child, IndexEntry):
                found[child.contract.id] = child
            else:
                child.collect(lookup, found)

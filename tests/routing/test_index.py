"""The index: the same result as checking every contract, with few contracts checked in vain."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import event_types, examples, json_values, properties
from holdfast.domain.address import parse_address
from holdfast.domain.contract import HIDDEN_SOURCES, Contract, Criterion
from holdfast.routing.index import DEPTH_MAX, LEAF, ContractIndex
from holdfast.routing.paths import EXACT, INNER, PATTERN, PREFIX, PRESENT, SUFFIX, fixed_parts

HANDLER = parse_address("handler:h")
AT_MS = 1000

NAMES = ("a", "b", "type", "source")
ODD = ("*", "**", "?", "[", "[!a]", "[a]", "[*]", "[]]", "[!]", "[]", "[b-a]", "*.failed", "order.*", "a*b*a", "é*")
ODD_VALUES = (
    None,
    True,
    False,
    0,
    5,
    -1.5,
    "true",
    "5",
    "None",
    "",
    [],
    [None],
    [["a"]],
    {"a": 1},
    "é.failed",
    "[",
    "*",
)

Fact = tuple[str, str, dict[str, Any]]


class World:
    """Contracts and events that often meet: few words, few names, and odd ones between them. One seed, one world."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words = [self._letters("ab.", 0, 7) for _ in range(self._random.randint(2, 12))]

    def contracts(self, count: int) -> list[Contract]:
        return [self.contract(f"c{at:03}") for at in range(count)]

    def contract(self, id: str) -> Contract:
        chance = self._random
        return Contract(
            id,
            HANDLER,
            source_criterion=self._criterion() if chance.random() < 0.3 else None,
            type_criterion=self._criterion() if chance.random() < 0.6 else None,
            properties={name: self._criterion() for name in chance.sample(NAMES, chance.choice([0, 0, 1, 1, 2, 3]))},
            expires_at_ms=chance.choice([None, None, None, AT_MS - 1, AT_MS, AT_MS + 1]),
        )

    def fact(self) -> Fact:
        chance = self._random
        source = chance.choice([*HIDDEN_SOURCES, "app", self._word()])
        return source, self._word(), {name: self._value() for name in chance.sample(NAMES, chance.randint(0, 4))}

    def _criterion(self) -> Criterion:
        chance, kind = self._random, self._random.random()
        match = chance.choice([self._word(), tuple(self._word() for _ in range(chance.randint(0, 4)))])
        if kind < 0.1:
            return Criterion(match, self._pattern(), required=False)
        if kind < 0.25:
            return Criterion()
        return Criterion(match if kind < 0.5 or kind > 0.9 else None, self._pattern() if kind > 0.5 else None)

    def _pattern(self) -> str:
        """A word with holes in it, or whatever can be typed."""
        chance = self._random
        if chance.random() < 0.2:
            return chance.choice([chance.choice(ODD), self._letters("ab.*?[]!^-\\", 1, 8)])
        letters = list(self._word() or "*")
        for _ in range(chance.randint(0, 2)):
            at = chance.randrange(len(letters) + 1)
            letters[at : at + chance.randint(0, 3)] = [
                chance.choice(["*", "*", "*", "?", "[ab]", "[!b]", "[.]", "[]a]", "[!]b]"])
            ]
        return "".join(letters)

    def _value(self) -> Any:
        chance = self._random
        if chance.random() < 0.3:
            return chance.choice(ODD_VALUES)
        return self._word() if chance.random() < 0.7 else [self._word() for _ in range(chance.randint(0, 3))]

    def _word(self) -> str:
        return self._random.choice(self._words) if self._random.random() < 0.8 else self._letters("ab.", 0, 12)

    def _letters(self, letters: str, least: int, most: int) -> str:
        return "".join(self._random.choices(letters, k=self._random.randint(least, most)))


# And whatever hypothesis comes upon, one contract and one event at a time.
wild = st.text(max_size=6) | st.text("ab.*?[]!^-\\", max_size=6)
criteria = st.builds(
    Criterion,
    st.none() | wild | st.lists(wild, max_size=3).map(tuple),
    st.none() | wild.filter(bool),
    st.sampled_from([True, True, False]),
)
contracts = st.builds(
    lambda source, type, wanted: Contract("c", HANDLER, source, type, wanted),
    st.none() | criteria,
    st.none() | criteria,
    st.dictionaries(st.sampled_from(NAMES), criteria, max_size=2),
)
facts = st.tuples(
    st.sampled_from(HIDDEN_SOURCES) | wild,
    wild,
    st.dictionaries(st.sampled_from(NAMES), json_values | wild, max_size=2),
)

worlds = st.integers(0, 2**32).map(World)
leaves = st.sampled_from([0, 0, 1, LEAF])  # none: every path of every contract is gone down


def dividing_at(leaf: int) -> Any:
    return mock.patch("holdfast.routing.index.LEAF", leaf)


def by_asking(known: list[Contract], fact: Fact) -> list[str]:
    return [contract.id for contract in known if contract.matches(*fact, AT_MS)]


def by_index(index: ContractIndex, fact: Fact) -> list[str]:
    return [contract.id for contract in index.matching(*fact, AT_MS)]


@given(worlds, leaves, st.integers(0, 80))
@examples
def test_the_index_finds_the_same_contracts_as_a_full_scan_in_the_same_order(world, leaf, count):
    known = world.contracts(count)
    with dividing_at(leaf):
        index = ContractIndex(known)
    for _ in range(20):
        fact = world.fact()
        assert by_index(index, fact) == by_asking(known, fact)


@given(worlds, leaves, st.integers(0, 2**32))
@examples
def test_it_stays_so_while_contracts_come_change_and_go(world, leaf, seed):
    chance = random.Random(seed)
    known = {contract.id: contract for contract in world.contracts(10)}
    with dividing_at(leaf):
        index = ContractIndex(known.values())
        for _ in range(chance.randint(0, 150)):
            id = f"c{chance.randrange(60):03}"
            if chance.random() < 0.3:
                index.remove(id)
                known.pop(id, None)
            else:
                known[id] = world.contract(id)
                index.put(known[id])
    assert len(index) == len(known)
    for _ in range(20):
        fact = world.fact()
        assert by_index(index, fact) == by_asking([known[id] for id in sorted(known)], fact)


@given(contracts, facts)
@examples
def test_no_criterion_that_can_be_written_makes_a_difference(contract, fact):
    with dividing_at(0):
        index = ContractIndex([contract])
    assert by_index(index, fact) == by_asking([contract], fact)


@given(worlds, leaves)
@examples
def test_an_index_that_lost_all_its_contracts_is_as_new(world, leaf):
    known = world.contracts(40)
    with dividing_at(leaf):
        index = ContractIndex(known)
        for contract in known:
            index.remove(contract.id)
    assert index.candidates(*world.fact()) == []
    assert (index._keys._uses, index._keys._lengths_of, index._counts) == ({}, {}, {})
    assert (index._named.is_empty, index._open.is_empty) == (True, True)


@given(st.sampled_from(["app", "hook"]), event_types, properties)
@examples
def test_a_contract_without_criteria_meets_every_event_but_those_of_hidden_sources(source, type, values):
    index = ContractIndex([Contract(f"c{at}", HANDLER) for at in range(3 * LEAF)])
    assert len(index.candidates(source, type, values)) == (0 if source in HIDDEN_SOURCES else 3 * LEAF)


def contract(id: int, **criteria: Any) -> Contract:
    given = {name: criteria.pop(name, None) for name in ("source", "type")}
    return Contract(
        f"c{id:06}", HANDLER, source_criterion=given["source"], type_criterion=given["type"], properties=criteria
    )


SHAPES = {
    "exact type": (lambda i: contract(i, type=Criterion(f"order.{i}")), lambda i: ("app", f"order.{i}", {})),
    "one source each": (lambda i: contract(i, source=Criterion(f"shop-{i}")), lambda i: (f"shop-{i}", "x", {})),
    "the same type, a property each": (
        lambda i: contract(i, type=Criterion("order.placed"), customer=Criterion(f"{i}")),
        lambda i: ("app", "order.placed", {"customer": i, "country": "NZ"}),
    ),
    "a property alone": (lambda i: contract(i, customer=Criterion(f"{i}")), lambda i: ("app", "x", {"customer": i})),
    "leading wildcard": (
        lambda i: contract(i, type=Criterion(pattern=f"*.job{i}.failed")),
        lambda i: ("app", f"eu.west.job{i}.failed", {}),
    ),
    "trailing wildcard": (
        lambda i: contract(i, type=Criterion(pattern=f"shop{i}.*")),
        lambda i: ("app", f"shop{i}.order", {}),
    ),
    "wildcards at both ends": (
        lambda i: contract(i, type=Criterion(pattern=f"order.*.shop{i:05}.*.done")),
        lambda i: ("app", f"order.eu.shop{i:05}.x.done", {}),
    ),
    "a list of values": (
        lambda i: contract(i, type=Criterion((f"order.{i}", f"refund.{i}", f"note.{i}"))),
        lambda i: ("app", f"refund.{i}", {}),
    ),
    "membership of a list": (
        lambda i: contract(i, label=Criterion(f"team-{i}")),
        lambda i: ("app", "x", {"label": ["bug", f"team-{i}", "docs"]}),
    ),
    "presence": (lambda i: contract(i, **{f"flag-{i}": Criterion()}), lambda i: ("app", "x", {f"flag-{i}": False})),
    "two properties of which neither is rare": (
        lambda i: contract(i, row=Criterion(f"{i // 50}"), column=Criterion(f"{i % 50}")),
        lambda i: ("app", "x", {"row": i // 50, "column": i % 50}),
    ),
    "the same wildcard, a property each": (
        lambda i: contract(i, type=Criterion(pattern="?*.failed"), customer=Criterion(f"{i}")),
        lambda i: ("app", "job.failed", {"customer": i}),
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("grown", [False, True], ids=["built", "grown"])
def test_an_event_is_compared_with_few_contracts_that_do_not_match(shape, grown):
    """Counted, not timed: of 2,500 contracts of which one wants the event, a handful are asked."""
    make, fact = SHAPES[shape]
    known = [make(i) for i in range(2500)]
    index = ContractIndex(() if grown else known)
    if grown:
        random.Random(7).shuffle(known)
        for each in known:
            index.put(each)
    for i in (0, 7, 1234, 2499):
        assert by_index(index, fact(i)) == [f"c{i:06}"]
        assert len(index.candidates(*fact(i))) <= 3 * LEAF


def test_many_contracts_behind_few_patterns_try_each_pattern_once(monkeypatch):
    tried: list[str] = []
    real = Criterion.passes
    patterns = ["??", "[ab]?", "?[cd]", "???"]
    index = ContractIndex([contract(i, type=Criterion(pattern=patterns[i % 4])) for i in range(4000)])
    monkeypatch.setattr(Criterion, "passes", lambda self, value: tried.append(self.pattern) or real(self, value))
    assert len(index.candidates("app", "ac", {})) == 3000
    assert sorted(tried) == sorted(patterns)


def test_a_list_of_lists_of_values_takes_a_bounded_number_of_places():
    many = tuple(f"v{i}" for i in range(100))
    known = [contract(i, type=Criterion(many), a=Criterion(many), b=Criterion(many)) for i in range(20)]
    index = ContractIndex(known)
    assert by_index(index, ("app", "v1", {"a": "v2", "b": "v3"})) == [each.id for each in known]
    assert sum(index._keys._uses.values()) <= 100


def test_contracts_of_any_length_are_divided_by_a_bounded_number_of_criteria():
    known = [contract(i, **{f"p{at}": Criterion("x") for at in range(2000)}) for i in range(3 * LEAF)]
    index = ContractIndex(known)
    assert by_index(index, ("app", "t", {f"p{at}": "x" for at in range(2000)})) == [each.id for each in known]
    assert sum(index._keys._uses.values()) == DEPTH_MAX


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("order.placed", [(EXACT, "order.placed")]),
        ("order.*", [(PREFIX, "order.")]),
        ("*.failed", [(SUFFIX, ".failed")]),
        ("a*b", [(PREFIX, "a"), (SUFFIX, "b")]),
        ("*abc*", [(INNER, "abc")]),
        ("*abcde*", [(INNER, "abcd"), (INNER, "bcde")]),
        ("*", [(PRESENT, "")]),
        ("***", [(PRESENT, "")]),
        ("?", [(PATTERN, "?")]),
        ("[ab]", [(PATTERN, "[ab]")]),
        ("[a]", [(EXACT, "a")]),
        ("[*]x*", [(PREFIX, "*x")]),
        ("[", [(EXACT, "[")]),
        ("[!]", [(EXACT, "[!]")]),
        ("[]]*", [(PREFIX, "]")]),
        ("[!a]b", [(SUFFIX, "b")]),
        ("[]a]b", [(SUFFIX, "b")]),
        ("[!]a]b", [(SUFFIX, "b")]),
        ("[!]*", [(PREFIX, "[!]")]),
    ],
)
def test_the_fixed_parts_of_a_pattern(pattern, parts):
    assert list(fixed_parts(pattern)) == parts

"""The index: the same answer as asking every contract, and hardly anybody asked in vain."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import event_types, examples, json_values, properties, texts
from holdfast.domain.address import parse_address
from holdfast.domain.contract import HIDDEN_SOURCES, Contract, Criterion
from holdfast.routing.index import LEAF, Index
from holdfast.routing.paths import EXACT, INNER, PATTERN, PREFIX, PRESENT, SUFFIX, marks_of

HANDLER = parse_address("handler:h")
AT_MS = 1000

# Few words and few names, so that contracts and events meet; and odd ones, so that nothing is taken for granted.
words = st.text("ab.*[]!-?", max_size=6) | st.sampled_from(["true", "5", "None", "order.placed", "[", "é", ""]) | texts
patterns = st.text("ab.*?[]!^-\\", min_size=1, max_size=8) | st.sampled_from(
    [
        "*",
        "**",
        "?",
        "[",
        "[!a]",
        "[a]",
        "[*]",
        "[]]",
        "[!]",
        "[]",
        "[b-a]",
        "*.failed",
        "order.*",
        "*ab*",
        "a*b*a",
        "é*",
    ]
)
matches = st.none() | words | st.lists(words, max_size=4).map(tuple)
criteria = st.builds(Criterion, matches, st.none() | patterns, st.sampled_from([True, True, True, False]))
names = st.sampled_from(["a", "b", "type", "source"])
contracts = st.builds(
    lambda source, type, wanted, expires: Contract(
        "", HANDLER, source_criterion=source, type_criterion=type, properties=wanted, expires_at_ms=expires
    ),
    st.none() | criteria,
    st.none() | criteria,
    st.dictionaries(names, criteria, max_size=3),
    st.sampled_from([None, None, AT_MS - 1, AT_MS, AT_MS + 1]),
)
values = words | st.none() | st.booleans() | st.integers(-5, 5) | st.lists(words, max_size=3) | json_values
facts = st.tuples(st.sampled_from([*HIDDEN_SOURCES, "app"]) | words, words, st.dictionaries(names, values, max_size=4))


def named(found: list[Contract]) -> list[Contract]:
    return [Contract(**{**plain(contract), "id": f"c{at:03}"}) for at, contract in enumerate(found)]


def plain(contract: Contract) -> dict[str, Any]:
    return {name: getattr(contract, name) for name in Contract.__slots__}


def by_asking(known: list[Contract], fact: tuple[str, str, dict[str, Any]]) -> list[str]:
    return [contract.id for contract in known if contract.matches(*fact, AT_MS)]


def by_index(index: Index, fact: tuple[str, str, dict[str, Any]]) -> list[str]:
    return [contract.id for contract in index.matching(*fact, AT_MS)]


@given(st.lists(contracts, max_size=60).map(named), st.lists(facts, min_size=1, max_size=5))
@examples
def test_the_index_finds_what_asking_every_contract_finds_in_the_same_order(known, asked):
    index = Index(known)
    for fact in asked:
        assert by_index(index, fact) == by_asking(known, fact)


@given(
    st.lists(contracts, min_size=20, max_size=60).map(named),
    st.lists(st.tuples(st.integers(0, 59), st.booleans(), contracts), max_size=60),
    st.lists(facts, min_size=1, max_size=4),
)
@examples
def test_it_stays_so_while_contracts_come_change_and_go(known, changes, asked):
    index = Index(known[:10])
    now = {contract.id: contract for contract in known[:10]}
    for contract in known[10:]:
        index.put(contract)
        now[contract.id] = contract
    for at, comes, contract in changes:
        id = f"c{at:03}"
        index.remove(id)
        now.pop(id, None)
        if comes:
            now[id] = Contract(**{**plain(contract), "id": id})
            index.put(now[id])
    assert len(index) == len(now)
    for fact in asked:
        assert by_index(index, fact) == by_asking([now[id] for id in sorted(now)], fact)


@given(st.lists(contracts, max_size=60).map(named), facts)
@examples
def test_an_index_that_lost_all_its_contracts_is_as_new(known, fact):
    index = Index(known)
    for contract in known:
        index.remove(contract.id)
    assert index.candidates(*fact) == []
    assert vars(index._held) == vars(Index()._held)
    assert (index._counts, index._named.is_empty, index._open.is_empty) == ({}, True, True)


@given(st.sampled_from(["app", "hook"]), event_types, properties)
@examples
def test_a_contract_without_criteria_meets_every_event_but_those_of_hidden_sources(source, type, values):
    index = Index([Contract(f"c{at}", HANDLER) for at in range(3 * LEAF)])
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
def test_an_event_meets_hardly_anybody_who_does_not_want_it(shape, grown):
    """Counted, not timed: of 2,500 contracts of which one wants the event, a handful are asked."""
    make, fact = SHAPES[shape]
    known = [make(i) for i in range(2500)]
    index = Index(() if grown else known)
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
    index = Index([contract(i, type=Criterion(pattern=patterns[i % 4])) for i in range(4000)])
    monkeypatch.setattr(Criterion, "passes", lambda self, value: tried.append(self.pattern) or real(self, value))
    assert len(index.candidates("app", "ac", {})) == 3000
    assert sorted(tried) == sorted(patterns)


def test_a_list_of_lists_of_values_takes_a_bounded_number_of_places():
    many = tuple(f"v{i}" for i in range(100))
    known = [contract(i, type=Criterion(many), a=Criterion(many), b=Criterion(many)) for i in range(20)]
    index = Index(known)
    assert by_index(index, ("app", "v1", {"a": "v2", "b": "v3"})) == [each.id for each in known]
    assert sum(index._held._uses.values()) <= 100


@pytest.mark.parametrize(
    ("pattern", "marks"),
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
    ],
)
def test_a_pattern_shows_what_a_text_must_have(pattern, marks):
    assert list(marks_of(pattern)) == marks

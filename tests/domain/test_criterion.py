"""Criterion: one condition on one value, and its reading from JSON or YAML."""

from __future__ import annotations

import re
from fnmatch import translate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import examples, scalars, texts
from holdfast.domain.contract import VALUES_MAX, Criterion, parse_criteria, parse_criterion
from holdfast.domain.errors import BadInput

present = scalars.filter(lambda value: value is not None) | st.lists(texts, max_size=3)
matches = st.none() | texts | st.lists(texts, min_size=1, max_size=4).map(tuple)
patterns = st.none() | st.text("ab.*?", min_size=1, max_size=5)


@given(texts, texts)
@examples
def test_a_match_is_exact(wanted, value):
    assert Criterion(match=wanted).passes(value) is (wanted == value)
    assert Criterion(match=wanted).passes(wanted)


@given(st.lists(texts, min_size=1, max_size=5), texts)
@examples
def test_a_list_matches_any_of_its_values(wanted, value):
    assert Criterion(match=tuple(wanted)).passes(value) is (value in wanted)
    assert all(Criterion(match=tuple(wanted)).passes(item) for item in wanted)


@pytest.mark.parametrize(
    ("pattern", "value", "passes"),
    [
        ("order.*", "order.placed", True),
        ("order.*", "order.line.added", True),  # a star crosses dots
        ("order.*", "order.", True),
        ("order.*", "order", False),
        ("order.*", "reorder.placed", False),  # the whole value, not a part of it
        ("order.*", "Order.placed", False),  # case counts
        ("ORDER.*", "order.placed", False),
        ("order.?", "order.x", True),
        ("order.?", "order.xy", False),
        ("[ab].done", "b.done", True),
        ("[ab].done", "c.done", False),
        ("[!ab].done", "c.done", True),
        ("a+b", "a+b", True),  # no regular expression
        ("a+b", "aab", False),
        ("*", "", True),
        ("*", "two\nlines", True),
    ],
)
def test_a_pattern_is_a_wildcard_over_the_whole_value(pattern, value, passes):
    assert Criterion(pattern=pattern).passes(value) is passes


@given(matches, patterns, present)
@examples
def test_match_and_pattern_must_both_hold(match, pattern, value):
    each = Criterion(match=match).passes(value) and Criterion(pattern=pattern).passes(value)
    assert Criterion(match=match, pattern=pattern).passes(value) is each


@given(present)
@examples
def test_a_criterion_without_condition_asks_only_for_presence(value):
    assert Criterion().passes(value)
    assert not Criterion().passes(None)


@pytest.mark.parametrize("value", ["", 0, 0.0, False, []])
def test_empty_values_are_present(value):
    assert Criterion().passes(value)


@given(matches, patterns, present | st.none())
@examples
def test_a_criterion_that_is_not_required_always_passes(match, pattern, value):
    assert Criterion(match, pattern, required=False).passes(value)


@given(matches, patterns)
@examples
def test_an_absent_value_never_meets_a_required_criterion(match, pattern):
    assert not Criterion(match, pattern).passes(None)


@given(texts, st.lists(texts, max_size=4))
@examples
def test_a_list_valued_property_matches_by_membership(wanted, values):
    assert Criterion(match=wanted).passes(values) is (wanted in values)


def test_a_pattern_may_meet_any_item_of_a_list():
    assert Criterion(pattern="bug*").passes(["docs", "bugfix"])
    assert not Criterion(pattern="bug*").passes(["docs", "debug"])


@pytest.mark.parametrize(
    ("written", "value"),
    [(True, True), ("true", True), (False, False), (5, 5), ("5", 5), (5, "5"), (1.5, 1.5), ("1.5", 1.5)],
)
def test_a_written_value_meets_the_value_it_stands_for(written, value):
    assert parse_criterion(written, "x").passes(value)
    assert parse_criterion({"match": [written]}, "x").passes(value)


@pytest.mark.parametrize(("written", "value"), [(True, 1), (1, True), ("True", True), (0, False), ("", 0)])
def test_a_boolean_is_no_number(written, value):
    assert not parse_criterion(written, "x").passes(value)


def by_fnmatch(value: str, pattern: str) -> bool:
    return re.compile(translate(pattern)).match(value) is not None


@given(st.text("ab.*", min_size=1, max_size=8), st.text("ab.\n", max_size=10))
@examples
def test_a_pattern_of_stars_matches_as_in_fnmatch(pattern, value):
    assert Criterion(pattern=pattern).passes(value) is by_fnmatch(value, pattern)


@given(st.text("ab*?[]!^-\\", min_size=1, max_size=8), st.text("ab[]!^-\\*?", max_size=6))
@examples
def test_so_is_any_other(pattern, value):
    assert Criterion(pattern=pattern).passes(value) is by_fnmatch(value, pattern)


@pytest.mark.parametrize(
    ("criterion", "value", "said"),
    [
        (Criterion("a"), "b", "type is 'b', not 'a'"),
        (Criterion(("a", "c")), "b", "type is 'b', not one of 'a', 'c'"),
        (Criterion(tuple("acdefgh")), "b", "type is 'b', not one of 'a', 'c', 'd', 'e', 'f' or 2 more"),
        (Criterion("a"), ["b", "c"], "type is ['b', 'c'], which does not contain 'a'"),
        (Criterion(pattern="a*"), "b", "type is 'b', which does not match the pattern 'a*'"),
        (Criterion("a", "b*"), "a", "type is 'a', which does not match the pattern 'b*'"),
        (Criterion("a", "b*"), "b", "type is 'b', not 'a'"),
        (Criterion(), None, "type is missing; expected any value"),
        (Criterion("a"), None, "type is missing; expected 'a'"),
        (Criterion("a", "a*"), None, "type is missing; expected 'a' and the pattern 'a*'"),
        (Criterion("true"), False, "type is False, not 'true'"),
    ],
)
def test_a_value_that_does_not_pass_gets_the_expected_value_as_reason(criterion, value, said):
    assert not criterion.passes(value)
    assert criterion.why("type", value) == said


@given(matches, patterns, st.booleans())
@examples
def test_a_criterion_reads_back_from_its_own_shape(match, pattern, required):
    criterion = Criterion(match, pattern, required)
    assert parse_criterion(criterion.as_dict(), "x") == criterion


def test_a_bare_value_is_shorthand_for_match():
    assert parse_criterion("push", "x") == Criterion(match="push")
    assert parse_criterion(["push", "tag"], "x") == Criterion(match=("push", "tag"))


@pytest.mark.parametrize(
    ("written", "named"),
    [
        (None, "type_criterion is empty"),
        ({"mach": "push"}, "unknown key 'mach'"),
        ({"match": "push", 5: "x", "a": "y"}, "unknown key 5"),
        ({"\x1b[31m": 1}, r"unknown key '\x1b[31m'"),
        ({"required": "yes"}, "type_criterion.required"),
        ({"required": 1}, "type_criterion.required"),
        ({"required": None}, "type_criterion.required"),
        ({"pattern": 5}, "type_criterion.pattern"),
        ({"pattern": ""}, "type_criterion.pattern"),
        ({"pattern": ["a*"]}, "type_criterion.pattern"),
        ({"pattern": "x" * 201}, "type_criterion.pattern"),
        ({"match": {"a": 1}}, "type_criterion.match"),
        ({"match": [["a"]]}, "type_criterion.match"),
        ({"match": ["a", None]}, "type_criterion.match"),
        ({"match": []}, "an empty list would never match"),
        ([], "an empty list would never match"),
        ({"match": ["a"] * (VALUES_MAX + 1)}, "1 to 100"),
        (object(), "type_criterion.match"),
    ],
)
def test_a_criterion_that_cannot_be_meant_is_refused_by_its_key(written, named):
    with pytest.raises(BadInput) as refused:
        parse_criterion(written, "type_criterion")
    assert named in refused.value.message


def test_criteria_of_properties_name_the_property_that_is_wrong():
    assert parse_criteria({"tool": "Bash"}, "properties") == {"tool": Criterion("Bash")}
    for bad, named in (
        ({"tool": {"like": 1}}, "properties.tool"),
        ({"": "x"}, "name"),
        ({5: "x"}, "not 5"),
        ([], "not []"),
    ):
        with pytest.raises(BadInput) as refused:
            parse_criteria(bad, "properties")
        assert named in refused.value.message

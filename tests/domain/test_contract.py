"""Contract: it wants an event exactly when nothing is amiss, and can say all that is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import event_types, examples, moments_ms, names, properties
from holdfast.domain.address import KINDS, Address, parse_address
from holdfast.domain.contract import Contract, Criterion, check_contract_id, default_terms, parse_target
from holdfast.domain.errors import BadInput
from holdfast.domain.retry import POLICIES

HANDLER = parse_address("handler:ship")
PARTS = ("expired", "source", "type", "'tool'", "'branch'")
criteria = st.builds(Criterion, st.none() | names, st.none() | st.sampled_from(["*", "a*", "?"]), st.booleans())
contracts = st.builds(
    Contract,
    id=st.just("c"),
    address=st.just(HANDLER),
    source_criterion=st.none() | criteria,
    type_criterion=st.none() | criteria,
    properties=st.dictionaries(names, criteria, max_size=3),
    expires_at_ms=st.none() | moments_ms,
)


@given(contracts, st.sampled_from(["app", "hook"]) | names, event_types, properties, moments_ms)
@examples
def test_a_contract_matches_exactly_when_no_criterion_fails(contract, source, type_, values, at_ms):
    assert contract.matches(source, type_, values, at_ms) is not any(contract.mismatches(source, type_, values, at_ms))


@given(st.sets(st.sampled_from(PARTS)))
@examples
def test_every_failing_criterion_is_named_and_no_other(fails):
    contract = Contract(
        "c",
        HANDLER,
        source_criterion=Criterion("github"),
        type_criterion=Criterion(pattern="push.*"),
        properties={"tool": Criterion("Bash"), "branch": Criterion()},
        expires_at_ms=1000,
    )
    values = {"tool": "Read" if "'tool'" in fails else "Bash", "branch": None if "'branch'" in fails else ""}
    reasons = list(
        contract.mismatches(
            "gitlab" if "source" in fails else "github",
            "pull" if "type" in fails else "push.tag",
            values,
            1000 if "expired" in fails else 999,
        )
    )
    failing = [part for part in PARTS if part in fails]
    assert len(reasons) == len(failing)
    assert all(name in sentence for name, sentence in zip(failing, reasons, strict=True))


def test_a_contract_without_criteria_matches_all_but_hidden_sources():
    contract = Contract("c", HANDLER)
    assert contract.matches("app", "x", {}, 0)
    assert not contract.matches("hook", "x", {}, 0)
    assert "names that source" in next(contract.mismatches("hook", "x", {}, 0))


@pytest.mark.parametrize(
    "criterion", [Criterion("hook"), Criterion(("app", "hook")), Criterion(pattern="h*"), Criterion()]
)
def test_a_hidden_source_reaches_a_contract_that_names_the_source(criterion):
    assert Contract("c", HANDLER, source_criterion=criterion).matches("hook", "stop", {}, 0)


@given(moments_ms, moments_ms)
@examples
def test_expiry_is_counted_when_the_event_was_accepted(expires, accepted):
    contract = Contract("c", HANDLER, expires_at_ms=expires)
    assert contract.matches("app", "x", {}, accepted) is (accepted < expires)
    assert Contract("c", HANDLER).matches("app", "x", {}, accepted)


def test_a_miss_shows_hostile_text_harmlessly():
    contract = Contract("c", HANDLER, type_criterion=Criterion("a"), properties={"p": Criterion("a")})
    reasons = "".join(contract.mismatches("app", "\x1b[2J", {"p": "\x1b]0;owned\x07" + "x" * 500}, 0))
    assert reasons.isprintable()
    assert len(reasons) < 300


@pytest.mark.parametrize("kind", KINDS)
def test_policy_and_order_follow_the_address_unless_the_contract_sets_them(kind):
    plain = Contract("c", Address(kind, "x"))
    assert plain.policy_name == {"https": "webhook", "handler": "hook", "session": "message"}[kind]
    assert plain.is_ordered is (kind == "session")
    chosen = Contract("c", Address(kind, "x"), policy="patient", ordered=kind != "session")
    assert (chosen.policy_name, chosen.is_ordered) == ("patient", kind != "session")


@pytest.mark.parametrize("kind", KINDS)
def test_terms_follow_the_address_unless_the_contract_sets_them(kind):
    address = Address(kind, "x")
    assert Contract("c", address).terms(POLICIES) == default_terms(kind, POLICIES)
    chosen = Contract("c", address, policy="patient", attempts=1, timeout_s=2.5, concurrency=3).terms(POLICIES)
    assert (chosen.policy.name, chosen.policy.attempts) == ("patient", 1)
    assert chosen.policy.schedule_s == POLICIES["patient"].schedule_s
    assert (chosen.timeout_s, chosen.concurrency) == (2.5, 3)
    assert POLICIES["patient"].attempts == 10


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ({"url": "https://example.com/x"}, Address("https", "https://example.com/x")),
        ({"handler": "ship"}, Address("handler", "handler:ship")),
        ({"session": "abc", "url": None, "secret": None}, Address("session", "session:abc")),
    ],
)
def test_a_target_has_one_address_and_perhaps_a_secret(target, address):
    assert parse_target(target) == (address, None)
    assert parse_target({**target, "secret": "s"}) == (address, "s")


@given(st.sets(st.sampled_from(["url", "handler", "session"])).filter(lambda kinds: len(kinds) != 1))
@examples
def test_a_target_with_no_address_or_several_is_refused(kinds):
    with pytest.raises(BadInput, match="Exactly one of"):
        parse_target({kind: "https://example.com" if kind == "url" else "x" for kind in kinds})


@pytest.mark.parametrize(
    ("target", "named"),
    [
        (None, "target must be an object"),
        ("https://example.com", "target must be an object"),
        ({"uri": "https://example.com"}, "unknown key 'uri'"),
        ({"url": "https://example.com", 1: 2, "x": 3}, "unknown key 1"),
        ({"url": 5}, "target.url must be text"),
        ({"handler": ["ship"]}, "target.handler must be text"),
        ({"url": "handler:ship"}, "target.url"),
        ({"handler": "two words"}, "handler:two words"),
        ({"session": ""}, "session:"),
        ({"handler": "ship", "secret": ""}, "target.secret"),
        ({"handler": "ship", "secret": 5}, "target.secret"),
    ],
)
def test_a_target_that_cannot_be_meant_is_refused_by_its_key(target, named):
    with pytest.raises(BadInput) as refused:
        parse_target(target)
    assert named in refused.value.message


@given(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}", fullmatch=True))
@examples
def test_a_plain_contract_id_is_kept(value):
    assert check_contract_id(value) == value


@pytest.mark.parametrize("value", ["", "-a", "a b", "a\n", "é", "x" * 129, None, 5, "a/b", "\x1b[0m"])
def test_any_other_contract_id_is_refused(value):
    with pytest.raises(BadInput, match="contract id"):
        check_contract_id(value)


@pytest.mark.parametrize(
    ("criteria", "matches"),
    [
        ({}, False),
        ({"type_criterion": Criterion(pattern="*")}, False),
        ({"type_criterion": Criterion(pattern="holdfast.*")}, True),
        ({"type_criterion": Criterion(match="holdfast.delivery.dead")}, True),
        ({"source_criterion": Criterion(match="holdfast")}, True),
    ],
)
def test_system_events_reach_only_contracts_that_name_them(criteria, matches):
    contract = Contract("c", parse_address("handler:h"), **criteria)
    assert contract.matches("holdfast", "holdfast.delivery.dead", {}, 0) is matches

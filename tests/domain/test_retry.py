"""Policies as data: jitter is only added, a hint only lengthens the wait, and `message` never gives up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import examples
from holdfast.domain.address import KINDS
from holdfast.domain.retry import POLICIES, RETRY_AFTER_MAX_S, Policy

policies = st.sampled_from(sorted(POLICIES.values(), key=lambda policy: policy.name)) | st.builds(
    Policy,
    name=st.just("own"),
    schedule_s=st.lists(st.floats(0.001, 1e6), min_size=1, max_size=6).map(tuple),
    attempts=st.none() | st.integers(1, 50),
    lease_s=st.just(30.0),
    jitter=st.floats(0, 1),
)
attempts = st.integers(1, 10_000)
chances = st.floats(0, 1, exclude_max=True)
hints = st.floats(allow_nan=True, allow_infinity=True) | st.floats(-10, 10_000)


@given(policies, attempts, chances, st.none() | hints)
@examples
def test_jitter_is_only_ever_added(policy, made, chance, hint):
    plain = policy.delay_s(made, 0.0, hint)
    assert plain <= policy.delay_s(made, chance, hint) <= plain * (1 + policy.jitter)


@given(policies, attempts, chances, hints)
@examples
def test_a_hint_never_shortens_the_wait(policy, made, chance, hint):
    assert policy.delay_s(made, chance, hint) >= policy.delay_s(made, chance)


@given(policies, attempts, st.floats(0, RETRY_AFTER_MAX_S))
@examples
def test_a_hint_up_to_an_hour_is_honoured(policy, made, hint):
    assert policy.delay_s(made, 0.0, hint) == max(hint, policy.delay_s(made, 0.0))


@given(policies, attempts, chances, st.floats(RETRY_AFTER_MAX_S, allow_infinity=True))
@examples
def test_a_hint_beyond_an_hour_counts_as_an_hour(policy, made, chance, hint):
    assert policy.delay_s(made, chance, hint) == policy.delay_s(made, chance, RETRY_AFTER_MAX_S)


@given(policies, attempts)
@examples
def test_the_schedule_is_followed_and_its_last_delay_repeats(policy, made):
    expected = policy.schedule_s[made - 1] if made <= len(policy.schedule_s) else policy.schedule_s[-1]
    assert policy.delay_s(made, 0.0) == expected


@given(policies, attempts)
@examples
def test_a_policy_is_exhausted_at_exactly_its_number_of_attempts(policy, made):
    assert policy.exhausted(made) is (policy.attempts is not None and made >= policy.attempts)


@given(attempts)
@examples
def test_a_message_is_never_given_up(made):
    assert not POLICIES["message"].exhausted(made)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_named_policy_waits_longer_each_time_and_stays_within_sense(policy):
    assert POLICIES[policy.name] is policy
    assert list(policy.schedule_s) == sorted(policy.schedule_s)
    assert policy.schedule_s[0] >= 1
    assert 0 < policy.jitter <= 1
    assert policy.lease_s >= 30
    assert policy.attempts is None or policy.attempts >= 1


@pytest.mark.parametrize(("name", "number"), [("hook", 20), ("webhook", 10), ("message", None), ("receipt", 24)])
def test_the_number_of_attempts_is_the_documented_one(name, number):
    assert POLICIES[name].attempts == number


def test_every_kind_of_address_has_a_policy():
    assert {kind.policy for kind in KINDS.values()} <= set(POLICIES)

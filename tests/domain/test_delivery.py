"""settle: the whole life of a delivery as one pure function."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import examples, moments_ms
from holdfast.domain.delivery import ERROR_MAX, Dead, Delivered, Dropped, Handed, Retry, Transition, clean_error, settle
from holdfast.domain.retry import POLICIES, RETRY_AFTER_MAX_S
from holdfast.domain.states import REASONS_BY, REASONS_OF, Reason, State

policies = st.sampled_from([POLICIES[name] for name in sorted(POLICIES)])
limited = policies.filter(lambda policy: policy.attempts is not None)
attempts = st.integers(0, 60)
chances = st.floats(0, 1, exclude_max=True)
errors = st.text(max_size=80)
dead = st.builds(Dead, st.sampled_from(sorted(REASONS_BY["Dead"])), errors)
dropped = st.builds(Dropped, st.sampled_from(sorted(REASONS_BY["Dropped"])), st.none() | st.integers(1))
retry = st.builds(Retry, errors, st.none() | st.floats(0, 1e6))
outcomes = st.just(Delivered()) | st.builds(Handed, st.floats(0, 1e6)) | retry | dead | dropped


@given(attempts, outcomes, policies, moments_ms, chances)
@examples
def test_an_attempt_is_counted_unless_none_was_made(made, outcome, policy, now_ms, chance):
    after = settle(made, outcome, policy, now_ms, chance)
    assert after.attempts == made + (not isinstance(outcome, Dropped))


@given(attempts, outcomes, policies, moments_ms, chances)
@examples
def test_a_transition_has_only_the_fields_of_its_state(made, outcome, policy, now_ms, chance):
    after = settle(made, outcome, policy, now_ms, chance)
    waits = [moment for moment in (after.due_at_ms, after.handed_until_ms) if moment is not None]
    assert len(waits) == (after.state is State.PENDING)
    assert all(moment >= now_ms for moment in waits)
    assert (after.reason is not None) is (after.state in (State.DEAD, State.DROPPED))
    assert after.reason is None or after.reason in REASONS_OF[after.state]
    assert after.error is None or after.state in (State.PENDING, State.DEAD)
    assert after.survivor is None or after.state is State.DROPPED


@given(attempts, outcomes, policies, moments_ms, chances)
@examples
def test_the_same_facts_always_settle_the_same(made, outcome, policy, now_ms, chance):
    assert settle(made, outcome, policy, now_ms, chance) == settle(made, outcome, policy, now_ms, chance)


@given(attempts, policies)
@examples
def test_delivered_is_delivered_without_error(made, policy):
    assert settle(made, Delivered(), policy, 5, 0.5) == Transition(State.DELIVERED, made + 1)


@given(attempts, policies, moments_ms, st.integers(0, 10**6))
@examples
def test_handed_waits_for_the_receiver_and_is_not_due(made, policy, now_ms, seconds):
    after = settle(made, Handed(seconds), policy, now_ms, 0.5)
    assert after == Transition(State.PENDING, made + 1, handed_until_ms=now_ms + seconds * 1000)


@given(limited, moments_ms, chances)
@examples
def test_a_failing_delivery_is_exhausted_at_exactly_the_last_attempt(policy, now_ms, chance):
    for made in range(policy.attempts - 1):
        assert settle(made, Retry("503"), policy, now_ms, chance).state is State.PENDING
    last = settle(policy.attempts - 1, Retry("503"), policy, now_ms, chance)
    assert last == Transition(State.DEAD, policy.attempts, Reason.EXHAUSTED, error="503")


@given(st.integers(0, 10**6), retry)
@examples
def test_a_message_is_tried_for_ever(made, outcome):
    assert settle(made, outcome, POLICIES["message"], 0, 0.0).state is State.PENDING


@given(attempts, policies, moments_ms, chances, st.floats(0, 1e9))
@examples
def test_a_hint_delays_the_next_attempt_and_never_hastens_it(made, policy, now_ms, chance, hint):
    plain = settle(made, Retry("x"), policy, now_ms, chance)
    hinted = settle(made, Retry("x", hint), policy, now_ms, chance)
    if plain.due_at_ms is None:
        assert hinted == plain
        return
    assert hinted.due_at_ms >= plain.due_at_ms
    assert hinted.due_at_ms >= now_ms + min(hint, RETRY_AFTER_MAX_S) * 1000 - 1
    longest = max(RETRY_AFTER_MAX_S, policy.schedule_s[-1]) * (1 + policy.jitter)
    assert hinted.due_at_ms <= now_ms + longest * 1000 + 1


@given(attempts, policies, st.sampled_from(sorted(Reason)), st.sampled_from(["Dead", "Dropped"]))
@examples
def test_a_reason_is_taken_only_from_the_outcome_it_belongs_to(made, policy, reason, trigger):
    outcome = Dead(reason, "x") if trigger == "Dead" else Dropped(reason)
    if reason in REASONS_BY[trigger]:
        assert settle(made, outcome, policy, 0, 0.0).reason is reason
    else:
        with pytest.raises(ValueError, match=f"{reason} is not a reason"):
            settle(made, outcome, policy, 0, 0.0)


@given(attempts, policies, dropped)
@examples
def test_a_dropped_delivery_names_its_survivor(made, policy, outcome):
    assert settle(made, outcome, policy, 0, 0.0).survivor == outcome.survivor


@given(st.text() | st.text("\x1b\r\n\x00\x9b\u202e ab", max_size=20))
@examples
def test_an_error_is_one_printable_line(error):
    assert clean_error(error).isprintable()
    assert clean_error(error) == clean_error(error).strip() != ""
    assert clean_error(clean_error(error)) == clean_error(error)


@given(st.integers(1, 3 * ERROR_MAX) | st.just(10**6))
@examples
def test_an_error_is_bounded_and_keeps_its_beginning(length):
    assert clean_error("y" * length) == "y" * min(length, ERROR_MAX)


@given(limited, attempts)
@examples
def test_every_stored_error_is_clipped(policy, made):
    hostile = "\x1b[31mred\x00" + "z" * 5000
    for outcome in (Retry(hostile), Dead(Reason.REJECTED, hostile)):
        assert settle(made, outcome, policy, 0, 0.0).error == clean_error(hostile)


def test_an_error_without_a_text_gets_one():
    for silent in ("", " ", "\n\t\x00"):
        assert clean_error(silent) == "failed without a message"

"""The table of states: complete, without contradiction, and walked line by line against `settle`."""

from __future__ import annotations

import pytest

from holdfast.domain.delivery import Dead, Delivered, Dropped, Handed, Outcome, Retry, settle
from holdfast.domain.retry import POLICIES
from holdfast.domain.states import REASONS_BY, REASONS_OF, STATE_RULES, Reason, State, StateRule

OUTCOMES = {kind.__name__: kind for kind in (Delivered, Handed, Retry, Dead, Dropped)}
LINES = [(rule, reason) for rule in STATE_RULES for reason in (rule.reasons or (None,))]
SETTLED = [(rule, reason) for rule, reason in LINES if rule.trigger in OUTCOMES]


def outcome_of(trigger: str, reason: Reason | None) -> Outcome:
    match trigger:
        case "Delivered":
            return Delivered()
        case "Handed":
            return Handed(60)
        case "Retry":
            return Retry("503")
        case "Dead":
            assert reason is not None
            return Dead(reason, "no")
        case _:
            assert reason is not None
            return Dropped(reason)


def name(line: tuple[StateRule, Reason | None]) -> str:
    rule, reason = line
    return f"{rule.before}-{rule.trigger}-{rule.after}-{reason}"


@pytest.mark.parametrize("line", SETTLED, ids=name)
def test_settle_follows_every_row_that_an_outcome_can_trigger(line):
    rule, reason = line
    last = POLICIES["webhook"].attempts - 1 if reason is Reason.EXHAUSTED else 0
    after = settle(last, outcome_of(rule.trigger, reason), POLICIES["webhook"], now_ms=0, chance=0.0)
    assert (after.state, after.reason) == (rule.after, reason)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("trigger", OUTCOMES)
def test_settle_never_leaves_the_table(policy, trigger):
    listed = {(rule.trigger, rule.after, reason) for rule, reason in SETTLED}
    for reason in Reason if trigger in ("Dead", "Dropped") else (None,):
        for attempts in range(30):
            try:
                after = settle(attempts, outcome_of(trigger, reason), policy, now_ms=0, chance=0.5)
            except ValueError:
                assert reason not in REASONS_BY[trigger]
            else:
                assert (trigger, after.state, after.reason) in listed


def test_every_outcome_and_every_state_has_its_line():
    assert set(OUTCOMES) == {rule.trigger for rule in STATE_RULES if not rule.trigger.startswith("operator: ")}
    assert {rule.before for rule in STATE_RULES} == set(State)
    assert {rule.after for rule in STATE_RULES} == set(State)
    assert all(rule.meaning for rule in STATE_RULES)


def test_no_two_lines_say_different_things_about_one_move():
    moves = [(rule.before, rule.trigger, rule.after) for rule in STATE_RULES]
    assert len(set(moves)) == len(moves)


def test_only_an_operator_leads_out_of_an_end():
    for rule in STATE_RULES:
        assert rule.trigger.startswith("operator: ") is (rule.before is not State.PENDING)


def test_every_reason_belongs_to_exactly_one_end():
    assert REASONS_OF[State.PENDING] == REASONS_OF[State.DELIVERED] == frozenset()
    assert REASONS_OF[State.DEAD] | REASONS_OF[State.DROPPED] == set(Reason)
    assert not REASONS_OF[State.DEAD] & REASONS_OF[State.DROPPED]
    assert all(bool(rule.reasons) is (rule.after in (State.DEAD, State.DROPPED)) for rule in STATE_RULES)


def test_states_and_reasons_are_the_words_that_are_stored():
    assert [str(state) for state in State] == ["pending", "delivered", "dead", "dropped"]
    assert all(str(reason) == reason.name.lower() for reason in Reason)

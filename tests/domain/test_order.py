"""What keeps order: ids that sort by time, lanes that hold a line, cursors that only move forward."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import examples, moments_ms, names
from holdfast.domain.cursor import Cursor
from holdfast.domain.errors import Conflict
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.lane import lane_key

chance = st.binary(min_size=ENTROPY_BYTES, max_size=ENTROPY_BYTES)
contract_ids = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,20}", fullmatch=True)
streams = st.text(st.sampled_from("ab :1"), min_size=1, max_size=8)
URL = "https://example.com/hook"


@given(moments_ms, chance, moments_ms, chance)
@examples
def test_ids_sort_by_time_and_within_it_by_chance(early, one, late, other):
    assert (make_id("evt", early, one) < make_id("evt", late, other)) is ((early, one) < (late, other))


@given(moments_ms, chance)
@examples
def test_an_id_has_one_shape_and_holds_its_moment(now_ms, entropy):
    made = make_id("evt", now_ms, entropy)
    prefix, _, digits = made.partition("_")
    assert (prefix, len(digits)) == ("evt", 32)
    assert int(digits[:12], 16) == now_ms
    assert bytes.fromhex(digits[12:]) == entropy
    assert "." not in made  # a dot would make a signed webhook ambiguous


@given(st.binary(max_size=20).filter(lambda raw: len(raw) != ENTROPY_BYTES))
@examples
def test_an_id_with_too_little_or_too_much_chance_is_refused(entropy):
    with pytest.raises(ValueError, match="10 random bytes"):
        make_id("evt", 0, entropy)


@given(st.none() | contract_ids, st.none() | streams, st.booleans())
@examples
def test_a_session_is_one_lane_for_all_contracts_and_streams(contract, stream, ordered):
    assert lane_key("session", "session:abc", contract, stream, ordered) == "session:abc"


@given(st.sampled_from(["https", "handler"]), contract_ids, streams)
@examples
def test_unordered_deliveries_and_those_without_a_stream_have_no_lane(kind, contract, stream):
    assert lane_key(kind, URL, contract, stream, ordered=False) is None
    assert lane_key(kind, URL, contract, None, ordered=True) is None


@given(contract_ids, streams, contract_ids, streams)
@examples
def test_two_lanes_are_one_only_for_the_same_contract_and_stream(one, stream, other, second):
    same = lane_key("https", URL, one, stream, True) == lane_key("https", URL, other, second, True)
    assert same is ((one, stream) == (other, second))


@given(streams)
@examples
def test_a_direct_delivery_is_ordered_by_its_address(stream):
    assert lane_key("handler", "handler:ship", None, stream, True) == f"handler:ship {stream}"
    assert lane_key("handler", "handler:ship", None, stream, True) != "session:ship"


@given(names, names, st.lists(st.integers(0, 10**9), max_size=8))
@examples
def test_a_cursor_only_moves_forward(reader, stream, steps):
    cursor = Cursor(reader, stream)
    assert cursor.next_seq == 1
    for now_ms, step in enumerate(sorted(steps)):
        cursor = cursor.advanced(step, now_ms)
        assert cursor == Cursor(reader, stream, step, now_ms)
        assert cursor.next_seq == step + 1


@given(st.integers(1, 10**9), st.integers(1, 10**9))
@examples
def test_moving_a_cursor_back_names_reader_stream_and_position(position, back):
    cursor = Cursor("mirror", "order:42", position)
    target = position - back
    with pytest.raises(Conflict) as refused:
        cursor.advanced(target, 0)
    for part in ("'mirror'", "'order:42'", str(position), str(target)):
        assert part in refused.value.message
    assert cursor.position == position


def test_a_cursor_may_stand_still():
    assert Cursor("r", "s", 5).advanced(5, 9) == Cursor("r", "s", 5, 9)

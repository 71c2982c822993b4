"""Event: the bytes a webhook carries, the digest that guards a dedup key, and the shape surfaces show."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import event_types, examples, json_values, names, properties
from holdfast.domain.canonical import dump_json, parse_json
from holdfast.domain.event import Appended, Event, iso_time, new_event

BASE = new_event("order.placed", {"id": 42}, stream="order:42", properties={"tool": "Bash"}, dedup_key="k")
OTHERS = {
    "type": new_event("order.paid", {"id": 42}, stream="order:42", properties={"tool": "Bash"}),
    "stream": new_event("order.placed", {"id": 42}, stream="order:43", properties={"tool": "Bash"}),
    "no stream": new_event("order.placed", {"id": 42}, properties={"tool": "Bash"}),
    "properties": new_event("order.placed", {"id": 42}, stream="order:42", properties={"tool": "Read"}),
    "payload": new_event("order.placed", {"id": 43}, stream="order:42", properties={"tool": "Bash"}),
    "to": BASE._replace(to="handler:ship"),
    "delay": BASE._replace(not_before_ms=5),
}


@st.composite
def stored(draw) -> Event:
    return Event(
        n=draw(st.integers(1)),
        id=draw(st.from_regex(r"evt_[0-9a-f]{32}", fullmatch=True)),
        stream=draw(st.none() | names),
        seq=draw(st.integers(1)),
        source=draw(names),
        type=draw(event_types),
        timestamp="2026-01-31T12:00:00Z",
        accepted_at_ms=draw(st.integers(0, 2**41)),
        properties_json=dump_json(draw(properties)).decode(),
        payload_json=dump_json(draw(json_values)).decode(),
    )


def copy(event: Event, **changed: object) -> Event:
    kept = {name: getattr(event, name) for name in Event.__slots__ if not name.startswith("_")}
    return Event(**{**kept, **changed})


@given(stored())
@examples
def test_a_body_is_canonical_json_with_every_part_of_the_fact(event):
    body = parse_json(event.body())
    assert dump_json(body) == event.body()
    for name in ("id", "stream", "seq", "source", "type", "timestamp", "properties", "payload"):
        assert body.pop(name) == getattr(event, name)
    assert body == {}


@given(st.sampled_from([" 1.0 ", '{"b":1,"a":2}', '"\\u00e9"', "1E2", "10000000000000000000001", '"é"']))
@examples
def test_the_stored_payload_is_spliced_in_unchanged(payload):
    event = Event(1, "evt_0", None, 1, "app", "t", "2026-01-31T12:00:00Z", 0, "{}", payload)
    assert b'"payload":' + payload.encode() + b',"properties"' in event.body()
    assert json.loads(event.body())["payload"] == json.loads(payload)


@given(stored())
@examples
def test_equal_facts_have_equal_bodies(event):
    again = copy(event)
    assert (again.payload, again.properties) == (event.payload, event.properties)  # reading leaves no trace
    assert again.body() == copy(event).body() == event.body()


@pytest.mark.parametrize(
    "changed",
    [{"id": "evt_x"}, {"stream": "other"}, {"seq": 2}, {"source": "o"}, {"type": "o"}, {"timestamp": "o"},
     {"properties_json": '{"a":1}'}, {"payload_json": "0"}],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
def test_facts_that_differ_have_bodies_that_differ(changed):
    event = Event(1, "evt_0", "s", 1, "app", "t", "2026-01-31T12:00:00Z", 0, "{}", "null")
    assert copy(event, **changed).body() != event.body()


def test_a_fact_without_a_stream_is_its_own_stream():
    event = Event(1, "evt_0", None, 1, "app", "t", "2026-01-31T12:00:00Z", 0, "{}", "null")
    assert event.stream == "evt_0"


@given(stored())
@examples
def test_the_shown_shape_is_json_and_has_the_time_of_acceptance(event):
    shown = event.as_dict()
    assert shown.pop("accepted_at") == iso_time(event.accepted_at_ms)
    assert shown == parse_json(event.body())
    assert event.id in repr(event)
    assert repr(event).isprintable()


def test_a_payload_of_null_is_read_once_and_stays_none():
    event = Event(1, "evt_0", None, 1, "app", "t", "2026-01-31T12:00:00Z", 0, "{}", "null")
    assert event.payload is None
    assert event.payload is None


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_digest_differs_when_a_part_that_matters_differs(other):
    assert other.digest != BASE.digest


def test_a_line_break_in_one_part_cannot_move_the_border_to_the_next():
    assert BASE._replace(stream="a\nb", to=None).digest != BASE._replace(stream="a", to="b\n").digest


def test_the_digest_ignores_fields_that_may_differ_between_retries():
    for same in (
        BASE._replace(id="evt_1"),
        BASE._replace(dedup_key=None),
        BASE._replace(timestamp="2026-01-31T12:00:00Z"),
        new_event("order.placed", {"id": 42}, stream="order:42", properties={"tool": "Bash"}),
    ):
        assert same.digest == BASE.digest


@given(st.dictionaries(names, json_values, max_size=4))
@examples
def test_the_digest_does_not_see_the_order_of_keys(payload):
    backwards = dict(reversed(payload.items()))
    assert new_event("t", payload).digest == new_event("t", backwards).digest


facts = st.builds(
    new_event,
    st.sampled_from(["t", "t1", "1:t"]),
    st.sampled_from([None, {}, "t", {"a": 1}]),
    stream=st.sampled_from([None, "s", "1:s", "0:"]),
    properties=st.sampled_from([{}, {"a": 1}]),
    to=st.sampled_from([None, "handler:s", "handler:t"]),
)


@given(facts, facts)
@examples
def test_no_part_of_a_fact_can_pose_as_another_in_the_digest(one, other):
    assert (one.digest == other.digest) is (one == other)


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 30)))  # noqa: DTZ001
@examples
def test_a_moment_is_written_in_utc_to_the_millisecond_and_reads_back(moment):
    moment = moment.replace(tzinfo=UTC, microsecond=moment.microsecond // 1000 * 1000)
    written = iso_time(round(moment.timestamp() * 1000))
    assert datetime.fromisoformat(written) == moment
    assert len(written) == len("2026-01-31T12:00:00.000Z")


def test_an_appended_event_is_shown_in_full():
    shown = Appended("evt_0", "s", 3).as_dict()
    assert shown == {"id": "evt_0", "stream": "s", "seq": 3, "duplicate": False}

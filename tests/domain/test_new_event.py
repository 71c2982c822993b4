"""new_event: everything a caller says about a fact is checked, and what is wrong is named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import event_types, examples, json_values, names, properties
from holdfast.domain.canonical import BYTES_MAX, parse_json
from holdfast.domain.errors import BadInput, BadJson, TooLarge
from holdfast.domain.event import NAME_MAX, PROPERTIES_BYTES_MAX, PROPERTIES_MAX, new_event
from holdfast.domain.text import short_repr

TOMORROW = datetime(2026, 2, 1, tzinfo=UTC)
HOSTILE = ["\x1b[31mred\x1b[0m", "a\nb", "a\tb", "a\x00b", "\x7f", "a\x9bb", "a\u202eb", "a\u200bb", "\ud800"]
TEXT = [
    "<script>alert(1)</script>",
    "'; drop table events; --",
    'say "hi"',
    "a b",
    "注文:42",
    "🦑",
    "%s{0}",
    "\\",
]


@given(event_types, json_values, names, st.none() | names, properties, st.none() | names)
@examples
def test_an_accepted_value_is_stored_unchanged(type_, payload, source, stream, values, key):
    event = new_event(type_, payload, source=source, stream=stream, properties=values, dedup_key=key, to="handler:ship")
    assert (event.type, event.source, event.stream, event.dedup_key) == (type_, source, stream, key)
    assert parse_json(event.payload) == payload
    assert parse_json(event.properties) == values
    assert event.to == "handler:ship"


def test_a_fact_may_be_no_more_than_its_type():
    event = new_event("tick")
    assert (event.payload, event.properties, event.source) == (b"null", b"{}", "app")
    assert event.stream is event.timestamp is event.dedup_key is event.to is event.not_before_ms is None


@pytest.mark.parametrize("value", ["order.placed", "a", "0", "_x", "a/b:c@d+e-f", "x" * NAME_MAX])
def test_a_type_is_letters_digits_and_a_few_signs(value):
    assert new_event(value).type == value


@pytest.mark.parametrize("value", ["", ".a", "-a", "a b", "a\n", "é", "x" * 256, "a*", "<b>", None, 5, *HOSTILE])
def test_any_other_type_is_refused(value):
    with pytest.raises(BadInput, match=r"^type .* is not a valid event type") as refused:
        new_event(value)
    assert refused.value.message.isprintable()


@pytest.mark.parametrize("part", ["source", "stream", "dedup_key"])
@pytest.mark.parametrize("value", [*HOSTILE, "", " a", "a ", "x" * (NAME_MAX + 1), 5, b"a", ["a"]], ids=ascii)
def test_a_name_that_could_harm_a_terminal_or_a_reader_is_refused(part, value):
    with pytest.raises(BadInput) as refused:
        new_event("t", **{part: value})
    assert refused.value.message.startswith(part)
    assert refused.value.message.isprintable()


@pytest.mark.parametrize("value", [*TEXT, "x" * NAME_MAX])
def test_a_name_is_text_and_never_code(value):
    event = new_event("t", source=value, stream=value, dedup_key=value)
    assert event.source == event.stream == event.dedup_key == value


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([], "properties must be an object"),
        ("", "properties must be an object"),
        (False, "properties must be an object"),
        ([["a", 1]], "properties must be an object"),
        ({"": 1}, "a property name"),
        ({5: 1}, "a property name"),
        ({"\x1b[2J": 1}, "a property name"),
        ({"x" * 256: 1}, "a property name"),
        ({"tool": {"name": "Bash"}}, "'tool'"),
        ({"tool": ("a",)}, "'tool'"),
        ({"tool": b"a"}, "'tool'"),
        ({"tags": ["a", 5]}, "'tags'"),
        ({"tags": [["a"]]}, "'tags'"),
        ({str(n): n for n in range(PROPERTIES_MAX + 1)}, "65 names; the limit is 64"),
    ],
)
def test_properties_that_no_criterion_could_read_are_refused_by_name(values, named):
    with pytest.raises(BadInput) as refused:
        new_event("t", properties=values)
    assert named in refused.value.message


def test_properties_are_bounded_in_bytes_and_hold_only_json():
    overhead = len(b'{"a":""}')
    fits = "x" * (PROPERTIES_BYTES_MAX - overhead)
    assert len(new_event("t", properties={"a": fits}).properties) == PROPERTIES_BYTES_MAX
    with pytest.raises(TooLarge, match=r"^properties"):
        new_event("t", properties={"a": fits + "x"})
    with pytest.raises(BadJson, match=r"^properties contains NaN"):
        new_event("t", properties={"a": float("nan")})
    assert new_event("t", properties={str(n): n for n in range(PROPERTIES_MAX)})


def test_a_payload_is_bounded_and_holds_only_json():
    with pytest.raises(TooLarge, match=r"^payload"):
        new_event("t", "x" * BYTES_MAX)
    with pytest.raises(BadJson, match=r"^payload contains a lone surrogate"):
        new_event("t", "\ud83d")


@pytest.mark.parametrize(
    ("given_", "kept"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00.123456+02:00", "2026-01-31T12:00:00.123456+02:00"),
        ("2026-01-31T12:00:00", "2026-01-31T12:00:00Z"),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00.000Z"),
        (datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2))), "2026-01-31T10:00:00.000Z"),
    ],
)
def test_a_timestamp_keeps_its_words_and_a_moment_becomes_utc(given_, kept):
    assert new_event("t", timestamp=given_).timestamp == kept


@pytest.mark.parametrize(
    "value", ["", "now", "T", "2026-01-31", "2026-01-31 12:00:00Z", "2026-13-01T00:00:00Z", "\x1b[0m", ["x"],
              "2026-02-30T00:00:00Z", "2026-01-31T25:00:00Z", "2026-01-31T12:00:00Z\n", 1_700_000_000, 1.5],
)  # fmt: skip
def test_a_timestamp_that_is_no_moment_is_refused(value):
    with pytest.raises(BadInput, match="is not RFC 3339") as refused:
        new_event("t", timestamp=value)
    assert refused.value.message.isprintable()


def test_a_moment_without_a_time_zone_is_refused():
    for moment in ({"timestamp": TOMORROW.replace(tzinfo=None)}, {"at": TOMORROW.replace(tzinfo=None)}):
        with pytest.raises(BadInput, match="has no time zone"):
            new_event("t", **moment)


def test_a_delayed_fact_waits_and_cannot_hold_up_a_stream():
    assert new_event("t", at=TOMORROW).not_before_ms == round(TOMORROW.timestamp() * 1000)
    with pytest.raises(BadInput, match="at= cannot be combined with stream="):
        new_event("t", at=TOMORROW, stream="s")


@pytest.mark.parametrize("to", ["", "ship", "mailto:x@example.com", "https://", "handler:\x1b", 5])
def test_a_direct_address_is_checked(to):
    with pytest.raises(BadInput):
        new_event("t", to=to)


@given(st.text() | st.binary() | st.lists(st.text()))
@examples
def test_a_value_in_a_message_is_short_and_harmless(value):
    assert len(short_repr(value)) <= 80
    assert short_repr(value).isprintable()

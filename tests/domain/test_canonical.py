"""Canonical bytes: one text for one value, and whatever cannot be carried is refused by name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import examples, json_values, texts
from holdfast.domain.canonical import BYTES_MAX, dump_json, parse_json
from holdfast.domain.errors import BadInput, BadJson, TooLarge
from holdfast.domain.json_value import DEPTH_MAX

CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)

BAD_BYTES = {
    "empty": (b"", "is not JSON"),
    "half a value": (b'{"a":', "is not JSON"),
    "two values": (b"1 2", "is not JSON"),
    "where it stops": (b'{"a": 1,\n "b" 2}', "line 2 column 6"),
    "latin-1": (b'"\xe9"', "not UTF-8 (byte 1)"),
    "surrogate bytes": (b'"\xed\xa0\x80"', "not UTF-8"),
    "byte order mark": (b"\xef\xbb\xbf[1]", "byte order mark"),
    "UTF-16": ("[1]".encode("utf-16"), "not UTF-8"),
    "UTF-16 without mark": ("[1]".encode("utf-16-le"), "NUL byte"),
    "UTF-32": ("[1]".encode("utf-32"), "not UTF-8"),
    "NaN": (b"[NaN]", "contains NaN"),
    "Infinity": (b'{"a":Infinity}', "contains Infinity"),
    "-Infinity": (b"-Infinity", "contains -Infinity"),
    "NUL byte": (b'"a\x00b"', "NUL byte"),
    "raw control character": (b'"a\nb"', "is not JSON"),
    "duplicate key": (b'{"a":1,"b":{"twin":1,"twin":1}}', "the key 'twin' twice"),
    "5000 digits": (b"[" + b"9" * 5000 + b"]", "too many digits"),
    "one level too deep": (b"[" * 65 + b"]" * 65, "deeper than 64"),
    "deeper than any stack": (b'{"a":' * 100_000, "deeper than 64"),
}

BAD_VALUES = {
    "NaN": (float("nan"), "NaN"),
    "infinity": ([float("-inf")], "infinity"),
    "NUL": ({"a": "x\x00y"}, "U+0000"),
    "NUL in a key": ({"x\x00y": 1}, "U+0000"),
    "lone surrogate": (["\ud83d"], "lone surrogate"),
    "lone surrogate in a key": ({"\udc00": 1}, "lone surrogate"),
    "circle": (CIRCLE, "contains itself"),
    "5000 digits": ({"n": -(10**5000)}, "too many digits"),
    "bytes": (b"raw", "not a JSON value"),
    "set": ({"a": {1, 2}}, "not a JSON value"),
    "keys of two kinds": ({1: 1, "a": 2}, "not a JSON value"),
}


def nested(depth: int) -> object:
    value: object = 0
    for level in range(depth):
        value = [value] if level % 2 else {"in": value}
    return value


@given(json_values)
@examples
def test_canonical_bytes_read_back_as_the_same_value(value):
    raw = dump_json(value)
    assert parse_json(raw) == value
    assert dump_json(parse_json(raw)) == raw


@given(st.dictionaries(texts, json_values, max_size=6).flatmap(lambda d: st.permutations(list(d.items()))))
@examples
def test_the_order_of_keys_never_changes_the_bytes(items):
    assert dump_json(dict(items)) == dump_json(dict(sorted(items)))


def test_keys_are_sorted_by_code_point_and_not_by_utf_16_unit():
    assert dump_json({"\U0001f600": 1, "\uffee": 2, "z": 3}) == '{"z":3,"\uffee":2,"\U0001f600":1}'.encode()


@given(json_values)
@examples
def test_canonical_bytes_are_one_line(value):
    assert b"\n" not in dump_json(value)
    assert b"\r" not in dump_json(value)


@pytest.mark.parametrize(("raw", "named"), BAD_BYTES.values(), ids=BAD_BYTES)
def test_bytes_that_cannot_be_carried_are_refused_by_name(raw, named):
    with pytest.raises(BadJson) as refused:
        parse_json(raw, "the body")
    assert refused.value.message.startswith("the body ")
    assert named in refused.value.message


@pytest.mark.parametrize(("value", "named"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_values_that_cannot_be_carried_are_refused_by_name(value, named):
    with pytest.raises(BadJson) as refused:
        dump_json(value, "the note")
    assert refused.value.message.startswith("the note ")
    assert named in refused.value.message


@pytest.mark.parametrize("raw", [b'"\\ud800"', b'"\\u0000"', b'{"\\u0000":1}', b"1e999", b"[-1e999]"])
def test_values_hidden_in_an_escape_or_an_exponent_are_rejected(raw):
    with pytest.raises(BadJson):
        dump_json(parse_json(raw))


@given(st.binary(max_size=40) | st.text('{}[]",:\\u0dDe1-. \nNaIn', max_size=40).map(str.encode))
@examples
def test_reading_any_bytes_gives_a_value_or_an_error_of_ours(raw):
    try:
        expected = parse_json(raw)
    except BadInput:
        return
    assert json.loads(raw) == expected


@given(st.integers(0, 9), texts)
@examples
def test_nul_is_refused_behind_any_number_of_backslashes_and_the_text_u0000_is_not(slashes, text):
    assert parse_json(dump_json(text + "\\" * (slashes + 1) + "u0000")) == text + "\\" * (slashes + 1) + "u0000"
    with pytest.raises(BadJson, match="NUL"):
        dump_json(text + "\\" * slashes + "\x00")


def test_sixty_four_levels_pass_and_sixty_five_do_not():
    raw = dump_json(nested(DEPTH_MAX))
    assert parse_json(raw) == nested(DEPTH_MAX)
    with pytest.raises(BadJson, match="deeper than 64"):
        dump_json(nested(DEPTH_MAX + 1))
    with pytest.raises(BadJson, match="deeper than 64"):
        parse_json(json.dumps(nested(DEPTH_MAX + 1)).encode())
    with pytest.raises(BadJson, match="deeper than 64"):
        dump_json(nested(100_000))


def test_many_brackets_are_not_depth():
    for value in ("[{" * 500, [[]] * 500):
        assert parse_json(dump_json(value)) == value


@pytest.mark.parametrize("limit", [10, BYTES_MAX])
def test_the_limit_counts_bytes_and_is_itself_allowed(limit):
    fits, over = "é" * ((limit - 2) // 2), "é" * ((limit - 2) // 2) + "x"
    raw = dump_json(fits, "payload", limit)
    assert len(raw) == limit
    assert parse_json(raw, "payload", limit) == fits
    with pytest.raises(TooLarge, match=rf"^payload is {limit + 1:,} bytes; the limit is {limit:,}"):
        dump_json(over, "payload", limit)
    with pytest.raises(TooLarge, match=rf"^payload is {limit + 1:,} bytes; the limit is {limit:,}"):
        parse_json(raw + b" ", "payload", limit)

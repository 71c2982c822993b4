"""Bad text in parser, settings, publish and the command line: one clear message, never another exception."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon import clean_env, run_cli
from holdfast import Outbox
from holdfast.config.config import load_config
from holdfast.config.settings_file import default_text
from holdfast.domain.canonical import dump_json, parse_json
from holdfast.domain.errors import BadConfig, BadInput, BadJson, HoldfastError, TooLarge
from holdfast.domain.text import short_repr
from holdfast.ingress.accept import FIELDS, parse_event

examples = settings(max_examples=300, deadline=None, derandomize=True)
some = settings(max_examples=60, deadline=None, derandomize=True)

texts = st.text(max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
seasoned = st.lists(
    st.sampled_from([*'{}[]:,"\\ \n\t\x00', "\\u0000", "\\ud800", "NaN", "1e999", "-0", "9" * 4400, '"a":1', "true"])
    | texts,
    max_size=12,
).map("".join)


def refusal(call: Callable[[Any], Any], argument: Any) -> str | None:
    """The message of a refusal, or None. Any other exception fails the test."""
    try:
        call(argument)
    except HoldfastError as error:
        return error.message
    return None


# The parser -------------------------------------------------------------------------------------------------


@examples
@given(raw=st.binary(max_size=200) | seasoned.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_bytes_break_the_parser_and_parsed_values_round_trip(raw: bytes) -> None:
    message = refusal(parse_json, raw)
    if message is not None:
        assert message.isprintable()
        return
    value = parse_json(raw)
    canonical = dump_json(value, limit=1 << 20)
    assert parse_json(canonical) == value
    assert dump_json(parse_json(canonical)) == canonical


@examples
@given(body=st.dictionaries(st.sampled_from([*FIELDS, "other"]), values) | values)
def test_no_value_breaks_the_event_constructor(body: Any) -> None:
    message = refusal(parse_event, body)
    if message is not None:
        assert 0 < len(message) < 1000
        return
    event = parse_event(body)
    assert parse_json(event.payload) == json.loads(event.payload)


@examples
@given(value=values)
def test_the_shown_form_of_a_value_is_short_and_harmless(value: Any) -> None:
    assert len(short_repr(value)) <= 80
    assert short_repr(value).isprintable()


# The settings -----------------------------------------------------------------------------------------------

LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
SETTINGS = {
    "a billion laughs": (LAUGHS, "alias"),
    "a depth bomb": ("server: " + "[" * 5000, "invalid value|not valid YAML"),
    "a key twice": ("server: {port: 1}\nserver: {port: 2}", "duplicate key 'server'"),
    "a key twice below": ("server: {port: 1, port: 2}", "duplicate key 'port'"),
    "not a number": ("retention: {dead_days: .nan}", "dead_days must be a positive number"),
    "infinity": ("retention: {dead_days: .inf}", "dead_days must be a positive number"),
    "a number beyond all": ("retention: {dead_days: 1.0e+300}", "dead_days must be a positive number"),
    "5,000 digits": ("server: {port: " + "9" * 5000 + "}", "invalid value"),
    "half a port": ("server: {port: 80.5}", "whole number"),
    "a date that never was": ("store: 2026-99-99", "invalid value"),
    "a date": ("store: 2026-01-01", "store must be text"),
    "a tag": ("store: !!python/object/apply:os.system [ls]", "not valid YAML"),
    "a key of a wrong kind": ("1: 2", "unknown setting '1'"),
    "a list as a key": ("? [a]\n: 1", "not valid YAML"),
    "NUL": ("store: a\x00b", "not valid YAML"),
    "an escape": ("store: \x1b[2J", "not valid YAML"),
    "a policy without a name": ("policies: {5: {schedule: [1]}}", "not a valid name"),
    "a policy of odd keys": ("policies: {p: {schedule: [1], 5: 1, a: 2}}", "unknown key"),
    "an infinite wait": ("policies: {p: {schedule: [.inf]}}", "positive numbers"),
    "an infinite lease": ("policies: {p: {schedule: [1], lease: .inf}}", "lease"),
    "true as jitter": ("policies: {p: {schedule: [1], jitter: true}}", "jitter"),
    "hosts of a wrong kind": ("server: {hosts: [1]}", "lists of texts"),
    "too large": ("#" * (1024 * 1024 + 1), "larger than"),
}


@pytest.mark.parametrize("what", SETTINGS)
def test_a_bad_settings_file_gives_one_clear_message(tmp_path: Path, what: str) -> None:
    text, message = SETTINGS[what]
    path = tmp_path / "holdfast.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadConfig, match=message) as caught:
        load_config(path)
    assert len(caught.value.message) < 1000
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("raw", [b"\xff\xfe", "store: é".encode("utf-16"), b"\x00"])
def test_a_settings_file_that_is_not_utf_8_is_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "holdfast.yml").write_bytes(raw)
    with pytest.raises(BadConfig, match=r"holdfast\.yml"):
        load_config(tmp_path / "holdfast.yml")


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "holdfast.yml").write_bytes(b"\xef\xbb\xbfserver: {port: 5000}")
    assert load_config(tmp_path / "holdfast.yml").port == 5000


def test_a_secret_from_the_environment_is_in_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "canary-1")
    for text in ("server: {port: '${A_SECRET}'}", "server: '${A_SECRET}'", "egress: {allow: '${A_SECRET}'}"):
        (tmp_path / "holdfast.yml").write_text(text)
        with pytest.raises(BadConfig) as caught:
            load_config(tmp_path / "holdfast.yml")
        assert "canary" not in caught.value.message
        assert "A_SECRET" in caught.value.message


NAMES = list(yaml.safe_load(default_text()))


INNER = ["port", "host", "hosts", "allow", "capacity", "dead_days", "ballast_bytes", "p"]
sections = values | st.dictionaries(st.sampled_from(INNER), values)


@some
@given(data=st.dictionaries(st.sampled_from([*NAMES, "other"]), sections))
def test_no_settings_break_the_reader(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    path = tmp_path_factory.mktemp("config") / "holdfast.yml"
    path.write_text(json.dumps(data), encoding="utf-8")
    message = refusal(load_config, path)
    assert message is None or 0 < len(message) < 2000


# Publish, and plain SQL -------------------------------------------------------------------------------------


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    outbox = Outbox(f"sqlite:///{tmp_path}/app.db")
    outbox.migrate()
    connection = sqlite3.connect(tmp_path / "app.db")
    connection.execute("CREATE TABLE orders (id INTEGER)")
    connection.commit()
    yield connection
    connection.close()


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


loop: list[Any] = []
loop.append(loop)
PUBLISHED: dict[str, tuple[dict[str, Any], type[HoldfastError]]] = {
    "NaN": ({"payload": float("nan")}, BadJson),
    "infinity": ({"payload": [float("-inf")]}, BadJson),
    "bytes": ({"payload": b"x"}, BadJson),
    "a set": ({"payload": {1}}, BadJson),
    "a key that is no text": ({"payload": {(1, 2): 3}}, BadJson),
    "a depth bomb": ({"payload": deep(100_000)}, BadJson),
    "just too deep": ({"payload": deep(70)}, BadJson),
    "something that holds itself": ({"payload": loop}, BadJson),
    "a lone surrogate": ({"payload": "\ud800"}, BadJson),
    "NUL": ({"payload": "\x00"}, BadJson),
    "10,000 digits": ({"payload": 10**10_000}, BadJson),
    "too large": ({"payload": "x" * 2_000_000}, TooLarge),
    "a type with a break": ({"type": "a\nb"}, BadInput),
    "a type that is no text": ({"type": 5}, BadInput),
    "a long stream": ({"stream": "x" * 256}, BadInput),
    "a stream with an escape": ({"stream": "\x1b"}, BadInput),
    "a lone surrogate in a name": ({"stream": "\ud800"}, BadInput),
    "properties that are no mapping": ({"properties": [1]}, BadInput),
    "a property that is an object": ({"properties": {"a": {}}}, BadInput),
    "an address that is none": ({"to": "ftp://x"}, BadInput),
    "an id with a blank": ({"timestamp": "yesterday"}, BadInput),
}


@pytest.mark.parametrize("what", PUBLISHED)
def test_a_bad_event_leaves_the_callers_transaction_as_it_was(connection, tmp_path: Path, what: str) -> None:
    fields, error = PUBLISHED[what]
    outbox = Outbox(f"sqlite:///{tmp_path}/app.db")
    connection.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(error):
        outbox.publish(connection, **{"type": "order.placed", **fields})
    outbox.publish(connection, "order.placed", {"id": 1})
    connection.commit()
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (1,)
    assert connection.execute("SELECT count(*) FROM holdfast_events").fetchone() == (1,)


PLAIN: dict[str, tuple[dict[str, Any], str]] = {
    "no type": ({}, "type is missing"),
    "an empty type": ({"type": ""}, "type is missing"),
    "a long type": ({"type": "x" * 256}, "255 characters"),
    "no JSON": ({"type": "t", "payload": "{"}, "payload is not JSON"),
    "NaN": ({"type": "t", "payload": "NaN"}, "payload is not JSON"),
    "JSON of another kind": ({"type": "t", "payload": "{a:1}"}, "payload is not JSON"),
    "a depth bomb": ({"type": "t", "payload": "[" * 100_000}, "payload is not JSON"),
    "a closed depth bomb": ({"type": "t", "payload": "[" * 5000 + "]" * 5000}, "payload is not JSON"),
    "bytes": ({"type": "t", "payload": b"\xff\xfe"}, "payload is not JSON"),
    "properties that are a list": ({"type": "t", "properties": "[]"}, "not a JSON object"),
    "an address that is none": ({"type": "t", '"to"': "ftp://x"}, "not an address"),
    "a delay within a stream": ({"type": "t", "stream": "s", "not_before": 1}, "cannot be combined"),
}


@pytest.mark.parametrize("what", PLAIN)
def test_plain_sql_is_refused_with_a_message_too(connection, what: str) -> None:
    fields, message = PLAIN[what]
    columns, marks = ", ".join(fields) or "type", ", ".join("?" * (len(fields) or 1))
    with pytest.raises(sqlite3.IntegrityError, match=f"holdfast: .*{message}"):
        connection.execute(
            f"INSERT INTO holdfast_publish ({columns}) VALUES ({marks})", tuple(fields.values()) or (None,)
        )
    assert connection.execute("SELECT count(*) FROM holdfast_events").fetchone() == (0,)


# The command line -------------------------------------------------------------------------------------------

EMITTED: dict[str, list[str]] = {
    "a depth bomb": ["a.b", "--payload", "[" * 50_000],
    "NaN": ["a.b", "--payload", "NaN"],
    "a number beyond all": ["a.b", "--payload", "1e999"],
    "a doubled key": ["a.b", "--payload", '{"a":1,"a":2}'],
    "a lone surrogate": ["a.b", "--payload", '"\\ud800"'],
    "a type with an escape": ["a\x1b[2J"],
    "a long type": ["a" * 300],
    "an empty type": [""],
    "a long stream": ["a.b", "--stream", "s" * 300],
    "a stream with a break": ["a.b", "--stream", "a\nb"],
    "a property without a value": ["a.b", "--property", "n"],
    "a property twice": ["a.b", "--property", "n=1", "--property", "n=2"],
    "a property in broken quotes": ["a.b", "--property", 'n="\\ud800"'],
    "an address that is none": ["a.b", "--to", "ftp://x"],
    "a time that never was": ["a.b", "--timestamp", "2026-02-30T00:00:00Z"],
    "an unknown option": ["a.b", "--sream", "x"],
}


@pytest.mark.parametrize("what", EMITTED)
def test_a_bad_command_gives_one_clear_message_and_spools_nothing(tmp_path: Path, what: str) -> None:
    said = run_cli(tmp_path / "home", "emit", *EMITTED[what])
    assert (said.code, said.out) == (2, ""), said
    assert "Traceback" not in said.err
    assert len(said.err) < 1500
    assert all(character.isprintable() or character == "\n" for character in said.err)
    assert not list((tmp_path / "home").rglob("*.evt"))


def test_invalid_utf_8_is_refused_by_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "emit", b"a.b", b"--payload", b'"\xff"']
    done = subprocess.run(command, env=clean_env(tmp_path), capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"UTF-8" in done.stderr
    done = subprocess.run(
        [*command[:6], b"-"], env=clean_env(tmp_path), input=b'"' + b"x" * 2_000_000, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"limit" in done.stderr


def test_an_unwritable_spool_gives_a_clear_message(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file where the folder should be")
    os.chmod(tmp_path, 0o700)
    said = run_cli(tmp_path, "emit", "a.b", "--json")
    assert (said.code, said.out) == (1, "")
    assert "was not accepted" in said.err

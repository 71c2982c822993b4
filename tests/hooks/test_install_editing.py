"""Editing config files as text: the wanted change is made, and everything else stays."""

from __future__ import annotations

import contextlib
import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents.codex import config_toml
from holdfast.agents.install import jsonc
from holdfast.agents.install.files import Refused

values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=5), values, max_size=5)
indents = st.sampled_from([None, 2, 4, "\t"])


def dress(text: str, draw: Any) -> str:
    """The same JSON with comments in some of the places where they may stand."""
    made, in_string, escaped = [], False, False
    for letter in text:
        made.append(letter)
        if in_string:
            in_string = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            in_string, escaped = True, False
        elif letter in "{[,:" and draw(st.integers(0, 5)) == 0:
            made.append(draw(st.sampled_from([' // said " so\n', "/* {[, */", " /* two\nlines */ "])))
    return "".join(made)


@given(objects, objects, indents, st.data())
def test_a_rewritten_text_has_the_wanted_value(before: Any, more: Any, indent: Any, data: Any) -> None:
    text = dress(json.dumps(before, indent=indent, ensure_ascii=False), data.draw)
    assert jsonc.parse(text).value == before
    kept = {key: value for key, value in before.items() if data.draw(st.booleans())}
    wanted = {**kept, **{key: value for key, value in more.items() if key not in before}}
    assert jsonc.parse(jsonc.rewrite(text, wanted)).value == wanted


@given(objects, values, indents)
def test_an_insertion_can_be_removed_to_the_byte(before: Any, value: Any, indent: Any) -> None:
    text = json.dumps(before, indent=indent)
    key = "a key that is not there"
    added = jsonc.rewrite(text, {**before, key: value})
    assert jsonc.rewrite(added, before) == text


@given(st.lists(values, max_size=5), st.lists(values, max_size=3), indents)
def test_lists_grow_at_their_end_and_shrink_again(before: list[Any], more: list[Any], indent: Any) -> None:
    text = json.dumps({"list": before}, indent=indent)
    added = jsonc.rewrite(text, {"list": before + more})
    assert jsonc.parse(added).value == {"list": before + more}
    assert jsonc.parse(jsonc.rewrite(added, {"list": before})).value == {"list": before}


@given(st.text(max_size=60))
def test_any_text_is_read_as_json_reads_it_or_refused(text: str) -> None:
    try:
        expected = json.loads(text, parse_constant=lambda name: 1 / 0)
    except (ValueError, ZeroDivisionError):
        with contextlib.suppress(jsonc.NotJson):
            jsonc.parse(text)
        return
    assert jsonc.parse(text).value == expected


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ('{"a": 1}', {"a": 1, "b": 2}, '{"a": 1, "b": 2}'),
        ("{}", {"b": 2}, '{\n  "b": 2\n}'),
        ("{\n}\n", {"b": 2}, '{\n  "b": 2\n}\n'),
        ('{\n\t"a": 1 // one\n}\n', {"a": 1, "b": [2]}, '{\n\t"a": 1, // one\n\t"b": [\n\t\t2\n\t]\n}\n'),
        ('{\r\n    "a": 1\r\n}', {"a": 1, "b": 2}, '{\r\n    "a": 1,\r\n    "b": 2\r\n}'),
        ('{\n  "a": 1,\n}\n', {"a": 1, "b": 2}, '{\n  "a": 1,\n  "b": 2,\n}\n'),
        ('{\n  "a": 1,\n  "b": 2\n}\n', {"a": 1}, '{\n  "a": 1\n}\n'),
        ('{\n  "a": 1,\n  // of b\n  "b": 2\n}\n', {"a": 1}, '{\n  "a": 1\n  // of b\n}\n'),
        ('{\n  "a": 1,\n  "b": 2\n}\n', {"b": 2}, '{\n  "b": 2\n}\n'),
        ('{"a": [1, 2, 3]}', {"a": [1, 3]}, '{"a": [1, 3]}'),
        ('{"a": [1]}', {"a": []}, '{"a": []}'),
        ('{\n  "a": {"b": 1} /* c */\n}', {"a": {"b": 2}}, '{\n  "a": {"b": 2} /* c */\n}'),
    ],
)
def test_a_rewrite_keeps_the_style_of_the_text(text: str, wanted: Any, expected: str) -> None:
    assert jsonc.rewrite(text, wanted) == expected


@pytest.mark.parametrize(
    "text", ["", "{", '{"a"}', '{"a": 1 "b": 2}', "[1 2]", '{"a": 01}', "{,}", '"\n"', "{} {}", "/*"]
)
def test_an_error_in_json_names_its_line(text: str) -> None:
    with pytest.raises(jsonc.NotJson, match=r"line \d is not JSON|ends too early"):
        jsonc.parse(text)


HANDLER = {"type": "command", "command": "ours stop", "timeout": 5}
OTHER = {"type": "command", "command": "ours end", "timeout": 3}
CONFIGS = {
    "empty": "",
    "keys": 'model = "x"\n# the end\n',
    "tables": '# mine\n\n[tui]\na = 1 # one\n\n[projects."/src/a b"]\ntrust_level = "trusted"\n',
    "keys, tables": 'model = "x"\nlist = [\n  1, # one\n  2,\n]\n\n# of tui\n[tui]\na = """\n[[hooks.Stop]]\n"""\n',
    "foreign": '[[hooks.Stop]]\nmatcher = ""\n\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "say"\n[z]\nb = 2\n',
    "trust": '[hooks.state."/x/hooks.json:stop:0:0"]\ntrusted_hash = "sha256:00"\n',
    "CRLF": 'model = "x"\r\n\r\n[tui]\r\na = 1\r\n',
    "quotes": "a = '''\n[[hooks.Stop]]\n'''\nb = \"\"\"x\\\"\"\"\"\nc = 'it''s' # x\n".replace("'it''s'", '"it\'s"'),
}


def is_ours(handler: Any) -> bool:
    return isinstance(handler, dict) and str(handler.get("command")).startswith("ours")


@pytest.mark.parametrize("kind", CONFIGS)
def test_hooks_are_written_to_toml_and_removed_again(kind: str) -> None:
    text = CONFIGS[kind]
    wired = config_toml.set_hooks(text, {"Stop": HANDLER, "SessionEnd": OTHER}, is_ours)
    said = tomllib.loads(wired)["hooks"]
    assert said["Stop"][-1] == {"hooks": [HANDLER]}
    assert said["SessionEnd"] == [{"hooks": [OTHER]}]
    assert wired.startswith(text)
    assert config_toml.set_hooks(wired, {"Stop": HANDLER, "SessionEnd": OTHER}, is_ours) == wired
    assert config_toml.set_hooks(wired, {}, is_ours) == text


@pytest.mark.parametrize("kind", CONFIGS)
def test_notify_is_written_to_toml_and_removed_again(kind: str) -> None:
    text = CONFIGS[kind]
    wired = config_toml.set_notify(text, ["/a b/python", "receiver"])
    assert tomllib.loads(wired)["notify"] == ["/a b/python", "receiver"]
    rest = iter(wired)
    assert all(letter in rest for letter in text)
    assert ("\r\n" in wired) == ("\r\n" in text)
    changed = config_toml.set_notify(wired, ["other"])
    assert tomllib.loads(changed)["notify"] == ["other"]
    assert config_toml.set_notify(changed, None) == text


def test_a_hook_in_toml_is_replaced_in_place() -> None:
    text = (
        config_toml.set_hooks(CONFIGS["foreign"], {"Stop": HANDLER}, is_ours)
        + '\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "last"\n'
    )
    moved = config_toml.set_hooks(text, {"Stop": {**HANDLER, "command": "ours moved"}}, is_ours)
    assert moved == text.replace("ours stop", "ours moved")


def test_hooks_written_inline_are_refused() -> None:
    with pytest.raises(Refused, match=r"by hand|TOML"):
        config_toml.set_hooks('hooks = { Stop = [ { hooks = [ { command = "ours" } ] } ] }\n', {}, is_ours)


def test_invalid_toml_is_refused() -> None:
    with pytest.raises(Refused, match="TOML"):
        config_toml.set_notify("a = = 1", ["x"])

"""Edits Codex's `config.toml` as text: every byte that is not ours stays.

The standard library reads TOML but does not write it. So a small scanner finds the statements, which are removed or
inserted as whole lines, and the result is parsed again: if it is not exactly as expected, the change is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.agents.install.files import Refused
from holdfast.agents.install.hook_entries import Handler, IsOwn, set_in_groups
from holdfast.domain.json_value import Json, JsonObject

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[{]|[\]}]|\n', re.DOTALL
)


class Statement(NamedTuple):
    """A header, a key with its value, or another line; from its first character to after its line end."""

    start: int
    end: int
    kind: str  # "table", "array", "key" or "gap"
    path: tuple[str, ...]


class Section(NamedTuple):
    """The header of an array of tables and its keys, without the lines after the last key."""

    start: int
    end: int
    path: tuple[str, ...]


def load(text: str) -> JsonObject:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Refused(f"it cannot be read as TOML ({error})") from None


def set_notify(text: str, words: Sequence[str] | None) -> str:
    """The text with this command as `notify`, or without `notify`. The current one must be ours or absent."""
    found = next((each for each in _top(text) if each.path == ("notify",)), None)
    line = "" if words is None else f"notify = {json.dumps(list(words), ensure_ascii=False)}{_newline(text)}"
    if found is not None:
        end = found.end
        if words is None and found.start == 0:  # with the blank line that was inserted after it
            end = _skip_blank(text, end)
        made = text[: found.start] + line + text[end:]
    elif words is None:
        return text
    else:
        made = _insert_at_top(text, line)
    expected = {key: value for key, value in load(text).items() if key != "notify"}
    _check(made, expected if words is None else {**expected, "notify": list(words)})
    return made


def set_table(text: str, path: tuple[str, ...], values: JsonObject | None) -> str:
    """The text with exactly these values in the table `[path]`, or without it. Subtables of it are removed too."""
    document = load(text)
    newline = _newline(text)
    made = text
    for start, end in reversed(_tables(text, path)):
        made = made[: _before_blank(made, start)] + made[end:]
    expected = _without(document, path)
    if values is not None:
        made += "" if not made or made.endswith("\n") else newline
        made += newline if made else ""
        made += f"[{'.'.join(path)}]{newline}" + "".join(
            f"{key} = {_inline(value)}{newline}" for key, value in values.items()
        )
        expected = _with(expected, path, values)
    if load(made) != expected:
        raise Refused(f"its table {'.'.join(path)} is written in a way that cannot be edited safely; edit it by hand")
    return made


def _tables(text: str, path: tuple[str, ...]) -> list[tuple[int, int]]:
    """Where the table and its subtables stand, each to the end of its last key."""
    found: list[tuple[int, int]] = []
    inside = False
    for statement in scan(text):
        if statement.kind in ("table", "array"):
            inside = statement.path[: len(path)] == path
            if inside:
                found.append((statement.start, statement.end))
        elif inside and statement.kind == "key":
            found[-1] = (found[-1][0], statement.end)
    return found


def _without(document: JsonObject, path: tuple[str, ...]) -> JsonObject:
    """The document without the value at a path, and without parents that become empty."""
    name, *rest = path
    if name not in document:
        return document
    inner = document[name]
    kept = _without(inner, tuple(rest)) if rest and isinstance(inner, dict) else {}
    others = {key: value for key, value in document.items() if key != name}
    return {**document, name: kept} if kept else others


def _with(document: JsonObject, path: tuple[str, ...], values: JsonObject) -> JsonObject:
    name, *rest = path
    inner = document.get(name, {})
    return {**document, name: _with(inner, tuple(rest), values) if rest and isinstance(inner, dict) else values}


def _inline(value: Json) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def set_hooks(text: str, wanted: Mapping[str, Handler], is_own: IsOwn) -> str:
    """The text with exactly these handlers of ours in `[[hooks.<event>.hooks]]`."""
    document = load(text)
    expected = set_in_groups(document, wanted, is_own)
    if expected == document:
        return text
    made, placed = _settle(text, wanted, is_own)
    newline = _newline(text)
    for event, handler in wanted.items():
        if event not in placed:
            made += "" if not made or made.endswith("\n") else newline
            made += newline if made else ""
            made += f"[[hooks.{event}]]{newline}[[hooks.{event}.hooks]]{newline}{_body(handler, newline)}"
    _check(made, expected)
    return made


def _settle(text: str, wanted: Mapping[str, Handler], is_own: IsOwn) -> tuple[str, set[str]]:
    """Replace our first handler of each wanted event in place and remove the others. Returns the events replaced."""
    placed: set[str] = set()
    edits: list[tuple[int, int, str]] = []
    for group, handlers in _groups(text):
        event = group.path[1]
        left = len(handlers)
        cuts = []
        for section in handlers:
            head, _, body = text[section.start : section.end].partition("\n")
            if not is_own(load(body)):
                continue
            if event in wanted and event not in placed:
                placed.add(event)
                edits.append((section.start, section.end, f"{head}\n{_body(wanted[event], _newline(text))}"))
            else:
                cuts.append(section)
                left -= 1
        if cuts and not left:
            cuts = [Section(group.start, cuts[-1].end, group.path)]
        edits += [(_before_blank(text, cut.start), cut.end, "") for cut in cuts]
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text, placed


def _groups(text: str) -> list[tuple[Section, list[Section]]]:
    """Every `[[hooks.<event>]]` with its `[[hooks.<event>.hooks]]`."""
    found: list[tuple[Section, list[Section]]] = []
    for section in _sections(text):
        if section.path[:1] != ("hooks",):
            continue
        if len(section.path) == 2:
            found.append((section, []))
        elif len(section.path) == 3 and section.path[2] == "hooks":
            owner = next((each for each in reversed(found) if each[0].path == section.path[:2]), None)
            if owner is not None:
                owner[1].append(section)
    return found


def _sections(text: str) -> Iterator[Section]:
    current: Section | None = None
    for statement in scan(text):
        if statement.kind in ("table", "array"):
            if current is not None:
                yield current
            current = None
            if statement.kind == "array":
                current = Section(statement.start, statement.end, statement.path)
        elif statement.kind == "key" and current is not None:
            current = current._replace(end=statement.end)
    if current is not None:
        yield current


def scan(text: str) -> Iterator[Statement]:
    """The statements of a valid TOML text.

    >>> [(each.kind, each.path) for each in scan('a = 1\\n[[hooks.Stop]]\\n')]
    [('key', ('a',)), ('array', ('hooks', 'Stop'))]
    """
    at = 0
    while at < len(text):
        end = _statement_end(text, at)
        raw = text[at:end].strip()
        if not raw or raw.startswith("#"):
            yield Statement(at, end, "gap", ())
        elif raw.startswith("["):
            yield Statement(at, end, "array" if raw.startswith("[[") else "table", _path(load(raw)))
        else:
            yield Statement(at, end, "key", _path(load(raw)))
        at = end


def _statement_end(text: str, start: int) -> int:
    """The offset after the line end of a statement. Strings, lists and inline tables may span lines."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] == "\n" and depth == 0:
            return token.end()
        depth += (token[0] in ("[", "{")) - (token[0] in ("]", "}"))
    return len(text)


def _path(value: object) -> tuple[str, ...]:
    """The dotted name of a header or a key, read from the nested value that it makes."""
    names = []
    while isinstance(value, dict) and len(value) == 1:
        name, value = next(iter(value.items()))
        names.append(name)
        if isinstance(value, list) and value and value[0] == {}:
            break
    return tuple(names)


def _top(text: str) -> Iterator[Statement]:
    for statement in scan(text):
        if statement.kind in ("table", "array"):
            return
        if statement.kind == "key":
            yield statement


def _insert_at_top(text: str, line: str) -> str:
    """Insert after the last key outside any table, or at the top if there is none."""
    keys = list(_top(text))
    if not keys:
        return line + (_newline(text) + text if text else "")
    last = keys[-1]
    ended = text[last.start : last.end].endswith("\n")
    return text[: last.end] + ("" if ended else _newline(text)) + line + text[last.end :]


def _body(handler: Handler, newline: str) -> str:
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}{newline}" for name, value in handler.items())


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _skip_blank(text: str, at: int) -> int:
    match = re.compile(r"\r?\n").match(text, at)
    return at if match is None else match.end()


def _before_blank(text: str, at: int) -> int:
    """The start of the blank line before an offset, if any: it was inserted together with what follows."""
    match = re.search(r"(?:^|(?<=\n))\r?\n\Z", text[:at])
    return at if match is None else match.start()


def _check(text: str, expected: Mapping[str, object]) -> None:
    """Refuse a result that differs from what is expected. An empty table of hooks counts as none."""
    said = load(text)
    for document in (said, expected := dict(expected)):
        if document.get("hooks") == {}:
            del document["hooks"]
    if said != expected:
        raise Refused("its hooks are written in a way that cannot be edited safely; add or remove them by hand")

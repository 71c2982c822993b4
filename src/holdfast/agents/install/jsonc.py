"""JSON with comments: parse with positions, and edit values while every other byte stays.

`rewrite` compares the current value with the new one and edits only the difference. The user's comments, order,
indentation, line ends and trailing commas stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import NamedTuple

from holdfast.domain.errors import BadInput
from holdfast.domain.json_value import Json, JsonObject

DEPTH_MAX = 100

_SPACE = re.compile(r"[ \t\r\n]*")
_GAP = re.compile(r"(?:[ \t\r\n]|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_REST = re.compile(r"[ \t]*\r?\n")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")


class NotJson(BadInput):
    """The text is not JSON, not even with comments."""


@dataclass(slots=True)
class Part:
    """One item of a list or one member of an object: from its first character to its last."""

    after: int  # end of the token before it: a comma or the opening bracket
    start: int
    node: Node
    key: str | None = None
    comma: int | None = None  # offset of the comma after it


@dataclass(slots=True)
class Node:
    """A value and its position in the text."""

    start: int
    end: int
    value: Json
    parts: list[Part] = field(default_factory=list)


class Edit(NamedTuple):
    start: int
    end: int
    text: str


def parse(text: str) -> Node:
    """The tree of a text, or NotJson that names the line.

    >>> parse('{"a": [1, /* two */ 2,]} // done').value
    {'a': [1, 2]}
    """
    reader = _Reader(text)
    root = reader.value(reader.gap(0), 0)
    end = reader.gap(root.end)
    if end != len(text):
        raise reader.wrong(end)
    return root


def rewrite(text: str, wanted: Json) -> str:
    """The text, edited so that its value is `wanted`.

    >>> rewrite('{"a": 1 /* one */}', {"a": 1, "b": [2]})
    '{"a": 1, /* one */ "b": [2]}'
    """
    root = parse(text)
    if root.value == wanted:
        return text
    for edit in reversed(_merge(_Writer(text).changes(root, wanted))):
        text = text[: edit.start] + edit.text + text[edit.end :]
    if parse(text).value != wanted:
        raise NotJson("the file is written in a way that cannot be edited safely")
    return text


def _merge(edits: Iterator[Edit]) -> list[Edit]:
    """The edits in text order, with overlapping cuts merged. Edits at the same offset keep their order."""
    merged: list[Edit] = []
    for edit in sorted(edits, key=lambda each: each.start):
        if merged and edit.start < merged[-1].end and not edit.text and not merged[-1].text:
            merged[-1] = merged[-1]._replace(end=max(edit.end, merged[-1].end))
        else:
            merged.append(edit)
    return merged


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def wrong(self, at: int) -> NotJson:
        line = self._text.count("\n", 0, at) + 1
        return NotJson(f"line {line} is not JSON" if at < len(self._text) else "the text ends too early for JSON")

    def gap(self, at: int) -> int:
        """The offset after white space and comments."""
        match = _GAP.match(self._text, at)
        return at if match is None else match.end()

    def value(self, at: int, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise NotJson(f"the file is nested more than {DEPTH_MAX} levels deep")
        opening = self._text[at : at + 1]
        if opening == "{":
            return self._object(at, depth)
        if opening == "[":
            return self._list(at, depth)
        match = (_STRING if opening == '"' else _SCALAR).match(self._text, at)
        try:
            return Node(at, match.end(), json.loads(match[0])) if match else self._fail(at)
        except ValueError:
            raise self.wrong(at) from None

    def _object(self, at: int, depth: int) -> Node:
        members: JsonObject = {}
        node = Node(at, at, members)
        for start in self._parts(node, "}"):
            name = _STRING.match(self._text, start)
            if name is None:
                raise self.wrong(start)
            colon = self.gap(name.end())
            if self._text[colon : colon + 1] != ":":
                raise self.wrong(colon)
            key = str(self.value(start, depth).value)
            child = self.value(self.gap(colon + 1), depth + 1)
            node.parts.append(Part(node.end, start, child, key))
            members[key] = child.value
        return node

    def _list(self, at: int, depth: int) -> Node:
        items: list[Json] = []
        node = Node(at, at, items)
        for start in self._parts(node, "]"):
            child = self.value(start, depth + 1)
            node.parts.append(Part(node.end, start, child))
            items.append(child.value)
        return node

    def _parts(self, node: Node, closing: str) -> Iterator[int]:
        """Yield where each part begins; the caller parses it before the next one."""
        node.end = node.start + 1
        at = self.gap(node.end)
        while self._text[at : at + 1] != closing:
            if node.parts and node.parts[-1].comma is None:
                raise self.wrong(at)
            yield at
            at = self.gap(node.parts[-1].node.end)
            if self._text[at : at + 1] == ",":
                node.parts[-1].comma = at
                node.end = at + 1
                at = self.gap(node.end)
        node.end = at + 1

    def _fail(self, at: int) -> Node:
        raise self.wrong(at)


class _Writer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        unit = re.search(r"^[ \t]+(?=[\"\[{])", text, re.MULTILINE)
        self._unit = unit[0] if unit else "  "

    def changes(self, node: Node, wanted: Json) -> Iterator[Edit]:
        if node.value == wanted and type(node.value) is type(wanted):
            return
        if isinstance(node.value, dict) and isinstance(wanted, dict):
            yield from self._object(node, wanted)
        elif isinstance(node.value, list) and isinstance(wanted, list):
            yield from self._list(node, node.value, wanted)
        else:
            yield Edit(node.start, node.end, self._render(wanted, self._indent_at(node.start), self._is_open(node)))

    def _object(self, node: Node, wanted: JsonObject) -> Iterator[Edit]:
        last = {part.key: part for part in node.parts}  # if a name is given twice, the last one counts
        gone = [part for part in node.parts if part.key not in wanted]
        for key, value in wanted.items():
            if key in last:
                yield from self.changes(last[key].node, value)
        new: list[tuple[str | None, Json]] = [(key, value) for key, value in wanted.items() if key not in last]
        yield from self._parts(node, gone, new)

    def _list(self, node: Node, current: list[Json], wanted: list[Json]) -> Iterator[Edit]:
        gone: list[Part] = []
        new: list[tuple[str | None, Json]] = []
        before, after = ([json.dumps(item, sort_keys=True) for item in items] for items in (current, wanted))
        for tag, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            if tag == "equal":
                continue
            same = min(j - i, m - k)
            for part, value in zip(node.parts[i : i + same], wanted[k : k + same], strict=True):
                yield from self.changes(part.node, value)
            gone += node.parts[i + same : j]
            new += [(None, value) for value in wanted[k + same : m]]
        yield from self._parts(node, gone, new)

    def _parts(self, node: Node, gone: list[Part], new: list[tuple[str | None, Json]]) -> Iterator[Edit]:
        """Remove parts and append others, with the right commas."""
        for part in gone:
            yield self._cut(part, whole_line=not new)
        kept = [part for part in node.parts if part not in gone]
        if new:
            yield from self._append(node, kept, new)
        elif gone and kept and kept[-1].comma is not None and node.parts[-1].comma is None:
            yield Edit(kept[-1].comma, kept[-1].comma + 1, "")
        elif gone and not kept:
            yield from self._close(node)

    def _append(self, node: Node, kept: list[Part], new: list[tuple[str | None, Json]]) -> Iterator[Edit]:
        open_ = self._is_open(node)
        outer = self._indent_at(node.start)
        indent = self._indent_at(node.parts[0].start) if node.parts and self._leads(node.parts[0]) else None
        inner = outer + self._unit if indent is None else indent
        gap = self._newline + inner if open_ else " "
        texts = [self._member(key, value, inner, open_) for key, value in new]
        trailing = bool(kept) and node.parts[-1].comma is not None
        if kept and kept[-1].comma is None:
            yield Edit(kept[-1].node.end, kept[-1].node.end, ",")
        body = "".join(gap + text + "," for text in texts)
        body = body if trailing else body[:-1]
        if not node.parts and not open_:
            body = body.removeprefix(" ")
        at = self._inside_end(node)
        if open_ and "\n" not in self._text[at : node.end]:
            body += self._newline + outer
        yield Edit(at, at, body)

    def _cut(self, part: Part, whole_line: bool) -> Edit:
        """A part with its comma and the white space before it; but a line comment before it keeps its line end."""
        start = self._lead(part)
        end = part.node.end if part.comma is None else part.comma + 1
        comments = list(_COMMENT.finditer(self._text, part.after, part.start))
        if comments and comments[-1][0].startswith("//"):
            start = self._text.index("\n", start) + 1
            if whole_line and (rest := _REST.match(self._text, end)):
                end = rest.end()
        return Edit(start, end, "")

    def _close(self, node: Node) -> Iterator[Edit]:
        """Remove the white space of an emptied container, unless it contains a comment."""
        last = node.parts[-1]
        at = last.node.end if last.comma is None else last.comma + 1
        if _SPACE.fullmatch(self._text, at, node.end - 1) and self._lead(node.parts[0]) == node.start + 1:
            yield Edit(at, node.end - 1, "")

    def _inside_end(self, node: Node) -> int:
        """The offset after the last part, comma or comment in a container."""
        return node.start + 1 + len(self._text[node.start + 1 : node.end - 1].rstrip(" \t\r\n"))

    def _lead(self, part: Part) -> int:
        """Where the white space before a part begins."""
        return len(self._text[: part.start].rstrip(" \t\r\n"))

    def _leads(self, part: Part) -> bool:
        """Whether a part begins its line."""
        return "\n" in self._text[self._lead(part) : part.start]

    def _is_open(self, node: Node) -> bool:
        """Whether a value spans several lines, or would if it were not empty."""
        if "\n" in self._text[node.start : node.end]:
            return True
        return not node.parts and ("\n" in self._text.strip() or not self._text[: node.start].strip())

    def _indent_at(self, at: int) -> str:
        """The indentation of the line at an offset."""
        line = self._text[self._text.rfind("\n", 0, at) + 1 :]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _member(self, key: str | None, value: Json, indent: str, open_: bool) -> str:
        text = self._render(value, indent, open_)
        return text if key is None else f"{json.dumps(key, ensure_ascii=False)}: {text}"

    def _render(self, value: Json, indent: str, open_: bool) -> str:
        text = json.dumps(value, ensure_ascii=False, indent=self._unit if open_ else None)
        return text.replace("\n", self._newline + indent)

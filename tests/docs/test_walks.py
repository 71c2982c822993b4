"""The walks of docs/reference/follow-one-event.md: at every step the file exists, and the function is in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store.sqlite.statements import sql

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reference" / "follow-one-event.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^\| `(src/[^`]+)` \| `([^`]+)` \| .+ \|$", TEXT, re.MULTILINE)
IN_SENTENCES = [(file, name) for name, file in re.findall(r"`([\w.]+)` in\s+`(src/[^`]+\.py)`", TEXT)]


def functions(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[str]:
    """The qualified names of all functions of a module, methods included."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")


def test_there_are_two_walks_of_many_steps():
    walks = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
    assert [walk.partition("\n")[0] for walk in walks] == ["From publish to receipt", "An agent's hook"]
    for walk in walks:
        assert len(re.findall(r"^\| `src/", walk, re.MULTILINE)) >= 25


@pytest.mark.parametrize(("file", "name"), STEPS + IN_SENTENCES, ids=lambda value: value)
def test_the_function_of_a_step_is_in_its_file(file, name):
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.endswith(".sql"):
        assert re.search(rf"\b{name}\b", text)
    else:
        assert name in set(functions(ast.parse(text)))


def test_every_row_of_the_tables_is_a_step():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| file |")]
    assert len(rows) == len(STEPS)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`sql\.(\w+)`", TEXT))))
def test_every_statement_of_a_step_exists(name):
    assert getattr(sql, name)

"""No module imports itself through others, also counting imports for types only and imports inside functions."""

from __future__ import annotations

import ast
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"


def modules() -> dict[str, Path]:
    found = {}
    for path in (SRC / "holdfast").rglob("*.py"):
        name = ".".join(path.relative_to(SRC).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the package that a module imports anywhere in its text."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {member if member in known else node.module for member in members}
    return names & known.keys()


def test_there_is_no_cycle() -> None:
    known = modules()
    graph = {name: imported(path, known) - {name} for name, path in known.items()}
    assert len(graph) > 500
    while leaves := [name for name, targets in graph.items() if not targets]:
        for name in leaves:
            del graph[name]
        for targets in graph.values():
            targets.difference_update(leaves)
    assert graph == {}

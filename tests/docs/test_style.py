"""The rules of style that a program can check: sizes, the number of `Any`, and banned words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "holdfast"

FILE_LINES_MAX = 400
LONG_FILES = frozenset({"tests/surfaces/test_parity.py"})
"""Files still above the limit. This list may only shrink."""
FUNCTION_LINES_MAX = 50
LONG_FUNCTIONS: frozenset[str] = frozenset()
"""Functions still above the limit, as path:name. This list may only shrink."""

ANY_MAX = 117
"""Uses of `Any` in src, except testing and proof. May only be lowered."""

BANNED = (
    "anew",
    "anybody",
    "dawdle",
    "everybody",
    "hitherto",
    "house",
    "inkwell",
    "mend",
    "mended",
    "mends",
    "mourn",
    "mourns",
    "neighbour",
    "neighbours",
    "newsroom",
    "nought",
    "obituary",
    "patience",
    "somebody",
    "teleclaude",
    "told",
    "whoever",
    "wished",
    "wishes",
)
"""Words with a plain replacement, or from outside the project. Matched in any case, also as parts of names."""

BANNED_IN_DOCS = ("nobody",)
"""Words that no page uses."""

ALLOWED = frozenset({("tests/ingress/test_verifiers.py", "everybody")})
"""(path, word) pairs that may stay: names that the API promises, and quotations."""

TEXTS = frozenset({".py", ".sql", ".md", ".txt", ".html", ".js", ".yml", ".css", ".pl"})


def sources() -> dict[str, str]:
    return {str(path.relative_to(SRC)): path.read_text("utf-8") for path in sorted(SRC.rglob("*.py"))}


def long_functions(path: str, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX:
                yield f"{path}:{node.name}"


def prose() -> Iterator[Path]:
    """Every text a reader may see: code, SQL, tests and documentation."""
    for folder in ("src", "docs", "architecture", "tests", "benchmarks", "examples", "monitoring"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".sql", ".md", ".txt", ".html", ".js", ".yml", ".css", ".pl") and path != Path(
                __file__
            ):
                yield path
    yield from sorted(ROOT.glob("*.md"))


def test_no_file_exceeds_its_limit() -> None:
    files = [path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in files}
    assert {path for path, count in lines.items() if count > FILE_LINES_MAX} - LONG_FILES == set()


def test_no_function_exceeds_its_limit() -> None:
    long = {name for path, text in sources().items() for name in long_functions(path, text)}
    assert long - LONG_FUNCTIONS == set()


def test_the_number_of_any_does_not_grow() -> None:
    count = sum(
        isinstance(node, ast.Name) and node.id == "Any"
        for path, text in sources().items()
        if not path.startswith(("testing/", "proof/"))
        for node in ast.walk(ast.parse(text))
    )
    assert count <= ANY_MAX


def test_no_banned_word_is_used() -> None:
    pattern = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(BANNED)})(?![A-Za-z])", re.IGNORECASE)
    found = []
    for path in prose():
        name = str(path.relative_to(ROOT))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            words = [word for word in pattern.findall(line) if (name, word.lower()) not in ALLOWED]
            found += [f"{name}:{number}: {word}" for word in words]
    assert found == []


def test_no_page_uses_a_word_with_a_plain_replacement() -> None:
    pattern = re.compile(rf"\b(?:{'|'.join(BANNED_IN_DOCS)})\b", re.IGNORECASE)
    pages = [*ROOT.glob("*.md"), *ROOT.glob("architecture/*.md"), *ROOT.glob("docs/**/*.md")]
    found = {str(page.relative_to(ROOT)): pattern.findall(page.read_text("utf-8")) for page in pages}
    assert {page: words for page, words in found.items() if words} == {}

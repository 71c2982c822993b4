"""Files, functions, statements, tables and links named in the pages exist; every package has its page."""

from __future__ import annotations

import importlib
import re
import sqlite3
from pathlib import Path

import pytest

from holdfast.store.open import print_schema
from holdfast.store.sqlite.statements import sql

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "src" / "holdfast"
EVENT_TYPES = {
    "holdfast.contract.disabled", "holdfast.delivery.dead", "holdfast.breaker.opened", "holdfast.breaker.closed",
    "holdfast.ping", "holdfast.fleet.alert", "holdfast.fleet.recovered",
    "holdfast.cursor.expired", "holdfast.event.skipped", "holdfast.reader.stuck", "holdfast.receipts.contention",
}  # fmt: skip
LOGGERS = {"holdfast.delivery"}
FIXTURES = {"holdfast_outbox"}
UNNAMED = {"apps", "elapsed", "contract_cache", "rows", "table"}
"""Small modules that no architecture page needs to name."""
FILES = (".db", ".yml", ".sock", ".db.ballast")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("architecture/*.md"), *ROOT.glob("docs/**/*.md")])


def page_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def codes(page: Path) -> list[str]:
    """Everything in backticks outside fenced blocks."""
    return re.findall(
        r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    )


def resolve(name: str) -> object:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.fixture(scope="module")
def schema() -> set[str]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(print_schema(own=True))
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    return names


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_file_a_page_names_exists(page):
    for code in codes(page):
        if re.match(r"(src|tests|examples|docs|architecture|requirements)/", code):
            assert (ROOT / code.partition("::")[0]).exists(), f"{page_name(page)} names {code}"


@pytest.mark.parametrize("page", sorted(ROOT.glob("architecture/*.md")), ids=page_name)
def test_every_file_that_an_architecture_page_names_alone_exists(page):
    existing = {path.name for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.*")}
    for code in codes(page):
        if re.fullmatch(r"\w+\.(py|pl|sql)", code):
            assert code in existing, f"{page_name(page)} names {code}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_function_and_statement_a_page_names_exists(page):
    for code in codes(page):
        if code in EVENT_TYPES | LOGGERS:
            continue
        if re.fullmatch(r"holdfast(\.\w+)+", code) and not code.endswith(FILES):
            resolve(code)
        elif re.fullmatch(r"sql\.\w+", code):
            assert getattr(sql, code.removeprefix("sql."))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_table_a_page_names_exists(page, schema):
    for code in codes(page):
        if re.fullmatch(r"holdfast_\w+", code) and code not in FIXTURES and page.name != "metrics.md":
            assert code in schema, f"{page_name(page)} names {code}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_link_resolves(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page_name(page)} links to {target}"


def test_every_package_has_a_page_and_every_page_a_package():
    packages = {path.parent.name for path in PACKAGES.glob("*/__init__.py")}
    assert {page.stem for page in ROOT.glob("architecture/*.md")} == packages | {"README"}
    front = (ROOT / "architecture" / "README.md").read_text("utf-8")
    for package in packages:
        assert f"]({package}.md)" in front


def test_the_index_links_to_every_page_of_the_docs():
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    for page in sorted((ROOT / "docs").glob("*/*.md")):
        name = str(page.relative_to(ROOT / "docs"))
        assert name.startswith("decisions/") or f"]({name})" in index, name


DECISIONS = sorted(ROOT.glob("docs/decisions/*.md"))


def test_decisions_are_numbered_without_gaps():
    assert [int(path.name[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


@pytest.mark.parametrize("page", DECISIONS, ids=page_name)
def test_a_decision_says_what_why_and_when_to_revisit_it(page):
    text = page.read_text("utf-8")
    number = int(page.name[:4])
    assert text.startswith(f"# {number}. ")
    assert [line for line in text.splitlines() if line.startswith("**")] == ["**What**", "**Why**", "**Revisit when**"]


@pytest.mark.parametrize("package", sorted(path.parent.name for path in PACKAGES.glob("*/__init__.py")))
def test_an_architecture_page_names_every_module_of_its_package(package):
    page = (ROOT / "architecture" / f"{package}.md").read_text("utf-8")
    modules = {path.stem for path in (PACKAGES / package).glob("[a-z]*.py")} - UNNAMED
    assert {name for name in modules if f"{name}.py" not in page and f".{package}.{name}." not in page} == set()

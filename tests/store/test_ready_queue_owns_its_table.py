"""The table of the ready queue is used by the ready queue alone; the few other uses are listed with their reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import holdfast
from holdfast.store.statements import Statements

STORE = Path(holdfast.__file__).parent / "store"
TABLE = re.compile(r"(holdfast_ready|\{schema\}\.ready)\b")
USE = re.compile(r"\bsql\.([a-z_]+)")
READS = {
    "delivery_columns": "shows an operator the due time and the lease of a delivery",
    "owner_forget": "keeps an owner as long as a lease names it",
    "owners_working": "counts the deliveries that each process holds",
}
REPAIRS = {"sqlite/clock_steps.py": "corrects due times after the wall clock was set back"}


def statements(file: Path) -> dict[str, str]:
    """The statements of one file by name, without their comments."""
    parts = [part.partition("\n") for part in file.read_text("utf-8").split("-- name: ")[1:]]
    return {name.strip(): re.sub(r"^--.*$", "", body, flags=re.MULTILINE) for name, _, body in parts}


def queue_statements(dialect: str) -> set[str]:
    return set(statements(STORE / dialect / "sql" / "ready_queue.sql"))


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_only_the_ready_queues_statements_name_its_table(dialect: str) -> None:
    others = [file for file in (STORE / dialect / "sql").glob("*.sql") if file.name != "ready_queue.sql"]
    found = {name: text for file in others for name, text in statements(file).items() if TABLE.search(text)}
    assert set(found) == set(READS)
    assert not [name for name, text in found.items() if re.search(r"(INTO|UPDATE|DELETE FROM) " + TABLE.pattern, text)]


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_the_ready_queues_statements_run_in_its_own_module_alone(dialect: str) -> None:
    owned = queue_statements(dialect)
    assert owned <= set(Statements(f"holdfast.store.{dialect}").names())
    used = {file.name: owned & set(USE.findall(file.read_text("utf-8"))) for file in (STORE / dialect).glob("*.py")}
    assert used.pop("ready_queue.py") == owned
    assert {name: names for name, names in used.items() if names} == {}


def test_no_python_module_of_a_store_contains_sql_for_its_table() -> None:
    found = {str(file.relative_to(STORE)) for file in STORE.rglob("*.py") if TABLE.search(file.read_text("utf-8"))}
    assert found == set(REPAIRS)

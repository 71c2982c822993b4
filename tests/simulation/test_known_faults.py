"""The page of known faults is complete and correct: every test, mutant and check it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import holdfast.proof.kills.checker as prove_checks
import holdfast.proof.simulation.checks as sim_checks
from holdfast.proof.simulation.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "proof" / "known-faults.md").read_text("utf-8")
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.splitlines()
    if line.startswith(("| S", "| I")) and (cells := [cell.strip() for cell in line.strip("|").split("|")])
}
FAULTS = [f"S{number}" for number in range(1, 21)]


def in_code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_fault_and_every_promise_has_its_row() -> None:
    assert [name for name in ROWS if name.startswith("S")] == FAULTS
    assert [name.split()[0] for name in ROWS if name.startswith("I")] == [f"I{number}" for number in range(1, 13)]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_has_a_test_that_exists(fault: str) -> None:
    named = in_code(ROWS[fault][1])
    assert named
    for path, _, test in (name.partition("::") for name in named):
        assert re.search(rf"^\s*(async )?def {test}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE), test


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mutant_on_the_page_exists_and_names_its_fault(fault: str) -> None:
    mutants = in_code(ROWS[fault][2])
    assert mutants or ROWS[fault][2].startswith("none: ")
    assert all(MUTANTS[name].fault.startswith(f"{fault}: ") for name in mutants)


def test_no_mutant_of_a_numbered_fault_is_missing_on_the_page() -> None:
    numbered = {name for name, mutant in MUTANTS.items() if re.match(r"S\d+: ", mutant.fault)}
    assert numbered == {name for fault in FAULTS for name in in_code(ROWS[fault][2])}


@pytest.mark.parametrize("promise", [name for name in ROWS if name.startswith("I")])
def test_every_check_on_the_page_is_one_that_runs(promise: str) -> None:
    for module, cell in zip((sim_checks, prove_checks), ROWS[promise], strict=True):
        source = Path(module.__file__ or "").read_text("utf-8")
        for name in in_code(cell):
            if name.startswith(("check_", "judge_")):
                assert name in source, f"{name} is not called by {module.__name__}"


def test_no_check_of_the_simulation_is_missing_on_the_page() -> None:
    run = set(re.findall(r"(check_\w+)\((?:case|evidence)\)", Path(sim_checks.__file__ or "").read_text("utf-8")))
    named = {name for row, cells in ROWS.items() if row.startswith("I") for name in in_code(cells[0])}
    assert run - named == set()

"""The soak: what counts as flat, and that a short one runs on both stores to the end."""

from __future__ import annotations

import dataclasses
import doctest
import sqlite3
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import __main__ as command  # noqa: E402
from benchmarks import goals, machine, page, sizes  # noqa: E402
from benchmarks.measure import Results  # noqa: E402
from benchmarks.soak import load, measure, section  # noqa: E402
from benchmarks.soak.measure import Flatness  # noqa: E402

from holdfast import Outbox  # noqa: E402


def test_the_examples_in_the_docstrings_hold():
    done = doctest.testmod(measure)
    assert done.attempted >= 3
    assert done.failed == 0


@pytest.mark.parametrize(
    ("first", "last", "flat"),
    [(100.0, 109.0, True), (100.0, 111.0, False), (100.0, 50.0, True), (0.0, 2.0, True), (0.0, 5000.0, False)],
)
def test_growth_above_a_tenth_is_not_flat_unless_it_is_tiny(first, last, flat):
    assert Flatness(first, last, max(first, last)).is_flat(floor=3.0) is flat


def test_a_log_below_the_limit_of_the_server_is_named_as_such():
    grown = Flatness(100.0, 2000.0, 2000.0)
    assert section._judgment("postgres", "WAL", grown) == "below the limit of its settings"
    assert section._judgment("sqlite", "WAL", grown) == "**no**"


def test_the_load_keeps_its_rate_and_does_not_make_up_for_a_late_turn(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(load.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(load.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    begins = []
    for _ in load._turns(0.5, ends=4.0):
        begins.append(clock[0])
        clock[0] += 1.6 if len(begins) == 2 else 0.1  # the second turn is slow
    assert begins == pytest.approx([0.0, 0.5, 2.1, 2.6, 3.1, 3.6])


def test_the_load_publishes_what_it_says(tmp_path):
    url = f"sqlite:///{tmp_path}/load.db"
    Outbox(url).migrate()
    result = load.publish(url, 0, 0.05)
    connection = sqlite3.connect(tmp_path / "load.db")
    (count,) = connection.execute("SELECT count(*) FROM holdfast_events").fetchone()
    connection.close()
    assert result["published"] == count > 0


@pytest.mark.slow
def test_a_short_soak_on_sqlite_is_judged_and_shown(tmp_path):
    results = Results()
    results.facts = machine.facts(ROOT) | {"command": "python -m benchmarks --soak"}
    measure.measure(results, tmp_path, None, dataclasses.replace(sizes.QUICK, soak_minutes=0.1))
    assert results.median("soak.sqlite.events") or 0 > 0
    assert (results.median("soak.sqlite.receipts per event") or 0) > 0
    assert next(goal for goal in goals.goals() if goal.id == "soak sqlite memory").met(results) is not None
    page.write(results, tmp_path / "numbers.md")
    text = (tmp_path / "numbers.md").read_text()
    assert "### Soak: 0.1 minutes" in text
    assert "| SQLite | tables without receipts |" in text


def test_a_soak_keeps_the_other_parts_and_runs_only_when_asked_for():
    given = command._parse(["--soak"])
    assert (given.soak, given.parts, given.merge) == (60.0, ["soak"], True)
    assert command._parse(["--soak", "2"]).soak == 2.0
    assert "soak" not in command._parse([]).parts

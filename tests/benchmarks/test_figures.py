"""The arithmetic of the benchmarks: the page follows from the figures, and nothing is silently missing."""

from __future__ import annotations

import doctest
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import __main__ as command  # noqa: E402
from benchmarks import goals, machine, measure, page, sizes, svg, tables  # noqa: E402
from benchmarks.measure import Results  # noqa: E402


def results(**figures: list[float]) -> Results:
    made = Results()
    made.facts = machine.facts(ROOT) | {"command": "python -m benchmarks"}
    for name, values in figures.items():
        for value in values:
            made.add(name, value, "/s")
    return made


@pytest.mark.parametrize("module", [measure, goals, svg, tables])
def test_the_examples_in_the_docstrings_hold(module):
    done = doctest.testmod(module)
    assert done.attempted >= 1
    assert done.failed == 0


def test_a_percentile_is_a_value_that_was_measured():
    values = [float(number) for number in range(1, 201)]
    assert measure.percentile(values, 0.5) == 100.0
    assert measure.percentile(values, 0.99) == 198.0
    assert measure.percentile(values, 1.0) == 200.0
    assert measure.percentile([7.0, 3.0], 0.01) == 3.0


def test_a_figure_is_its_median_with_its_spread():
    figure = results(**{"pg.drain.holdfast": [30.0, 10.0, 20.0]}).figures["pg.drain.holdfast"]
    assert (figure.low, figure.median, figure.high) == (10.0, 20.0, 30.0)


def test_a_goal_is_met_at_its_bound_and_its_ratio_shows_the_margin():
    made = results(**{"pg.drain.holdfast": [20_000.0], "pg.drain.pgqueuer": [10_000.0], "pg.drain.pgmq": [40_000.0]})
    found = {goal.id: goal for goal in goals.goals()}
    assert found["P5 pgqueuer"].met(made) is True
    assert found["P5 pgqueuer"].ratio(made) == 1.0
    assert found["P5 pgmq"].met(made) is False
    assert found["P5 pgmq"].read(made) == 0.5
    assert found["P3 drain"].met(made) is None
    made.add("restart.sqlite", 2.0, "s")
    assert found["P10 sqlite"].met(made) is False
    assert found["P10 sqlite"].ratio(made) == 0.5


def test_enqueue_is_compared_with_the_best_of_the_python_peers_alone():
    made = results(**{"pg.single.holdfast": [900.0], "pg.single.oban": [600.0], "pg.single.pgqueuer": [300.0]})
    made.add("pg.single.pgmq", 5000.0, "/s")
    assert goals.best("pg.single")(made) == 1.5


def test_growth_covers_every_size_and_counts_only_slowdowns():
    made = results(**{"backlog.sqlite.10000.drain": [100.0], "backlog.sqlite.1000000.drain": [75.0]})
    made.add("backlog.sqlite.5000000.drain", 90.0, "/s")
    made.add("backlog.sqlite.10000.CPU", 1.0, "µs")
    assert goals.growth("backlog.sqlite.", ".drain", rising_is_worse=False)(made) == 25.0
    assert goals.series(made, "backlog.sqlite.", ".drain") == [(10_000, 100.0), (1_000_000, 75.0), (5_000_000, 90.0)]


def test_the_goals_of_webhooks_and_matching_read_their_figures(tmp_path):
    made = results(**{"webhooks.own client, bare": [100.0], "webhooks.holdfast": [60.0]})
    made.add("http.bare Starlette, 64 connections", 100.0, "/s")
    made.add("http.events, 64 connections", 60.0, "/s")
    made.add("http.webhooks, 64 connections", 40.0, "/s")
    for name, value in (("all well", 10.0), ("one hangs", 16.0)):
        made.add(f"webhooks.p99 of others, {name}", value, "ms")
    found = {goal.id: goal for goal in goals.goals()}
    assert found["P7"].met(made) is None
    for shape, grows in (("exact", 1.1), ("suffix", 2.5)):
        for count in (1000, 100_000):
            made.add(f"matching.{shape}.{count}", 5.0, "µs")
        made.add(f"matching.{shape}.grows", grows, "×")
    assert [found[id].met(made) for id in ("P4", "hanging", "P7")] == [True, False, False]
    assert [found[f"P11 {name} many"].met(made) for name in ("events", "webhooks")] == [True, False]
    assert found["P7"].read(made) == 2.5
    page.write(made, tmp_path / "numbers.md")
    text = (tmp_path / "numbers.md").read_text()
    assert "| webhooks: holdfast | 60.0 /s |" in text
    assert "| suffix | – | 5.00 µs | 5.00 µs | 2.50 × |" in text


def test_every_explanation_belongs_to_a_goal():
    ids = [goal.id for goal in goals.goals()]
    assert len(ids) == len(set(ids))
    assert set(goals.explanations()) <= set(ids)
    with pytest.raises(ValueError, match="is not a goal id"):
        goals.explanations("P5 pgmq, because: of that")


def test_the_page_can_be_made_again_from_the_figures_alone(tmp_path):
    made = results(**{"pg.drain.holdfast": [2.0, 1.0, 3.0], "claim.postgres.10000": [1.0]})
    made.add("backlog.postgres.10000.drain", 5.0, "/s")
    first, second = tmp_path / "a" / "numbers.md", tmp_path / "b" / "numbers.md"
    for path in (first, second):
        path.parent.mkdir()
    page.write(made, first)
    page.write(Results.from_json(json.loads(json.dumps(made.to_json()))), second)
    assert first.read_text() == second.read_text()
    pictures = re.findall(r"\]\((numbers/[^)]+)\)", first.read_text())
    assert pictures
    for picture in pictures:
        ElementTree.parse(first.parent / picture)


def test_a_peer_that_could_not_be_installed_is_named_with_the_reason(tmp_path):
    made = results(**{"pg.drain.holdfast": [2.0]})
    made.miss("pg.oban", "it needs Python 3.12 or later, and none was found on this machine")
    page.write(made, tmp_path / "numbers.md")
    row = next(line for line in (tmp_path / "numbers.md").read_text().splitlines() if line.startswith("| oban"))
    assert "it needs Python 3.12" in row


def test_a_missed_goal_says_by_how_much_why_and_what_was_tried(tmp_path, monkeypatch):
    made = results(**{"sqlite.drain.holdfast": [30_000.0]})
    monkeypatch.setattr(page, "explanations", dict)
    page.write(made, tmp_path / "numbers.md")
    text = (tmp_path / "numbers.md").read_text()
    missed = "- **SQLite: drain to a no-op handler**: 30,000 /s instead of ≥ 40,000 /s, missed by 25 %."
    assert f"{missed}\n  - Why: not explained yet." in text
    known = goals.explanations("P3 drain: one core.\nP3 drain, limit: 45,000 /s.\nP3 drain, tried: this; 2 % more.")
    monkeypatch.setattr(page, "explanations", lambda: known)
    page.write(made, tmp_path / "numbers.md")
    lines = f"{missed}\n  - Why: one core.\n  - Limit: 45,000 /s.\n  - Tried: this; 2 % more.\n"
    assert lines in (tmp_path / "numbers.md").read_text()


def test_the_goals_say_whether_a_user_sees_the_whole_path_or_a_part(tmp_path):
    made = results(**{"pg.drain.holdfast": [20_000.0], "pg.drain.pgqueuer": [10_000.0]})
    made.add("pg.drain.holdfast, routed on the way", 15_000.0, "/s")
    page.write(made, tmp_path / "numbers.md")
    text = (tmp_path / "numbers.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "relative to pg" in line]
    shown = {row[0]: (row[2], row[-1]) for row in rows if len(row) == 7}
    assert shown["PostgreSQL: published to settled, relative to pgqueuer"] == ("1.50 ×", "whole path")
    assert shown["PostgreSQL: drain, relative to pgqueuer"] == ("2.00 ×", "part")
    user, parts = text.index("## What a user sees"), text.index("## Parts in isolation")
    assert user < text.index("| **holdfast** | – | – | 15,000 /s |") < parts
    assert parts < text.index("| PostgreSQL: holdfast | 20,000 /s |")


def test_earlier_figures_of_goals_name_existing_goals():
    names = {name.removeprefix("goal ") for name in tables.earlier() if name.startswith("goal ")}
    assert names
    assert names <= {goal.id for goal in goals.goals()}


def test_measuring_a_part_again_replaces_only_its_own_figures():
    made = results(**{"backlog.sqlite.10.drain": [1.0], "claim.sqlite.10": [1.0], "pg.drain.oban": [1.0]})
    made.miss("backlog.sqlite", "no room")
    made.miss("pg.dbos", "not there")
    left = command._without(made, ["backlog"])
    assert set(left.figures) == {"pg.drain.oban"}
    assert set(left.missing) == {"pg.dbos"}


def test_a_failed_part_is_recorded_and_the_others_continue(tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise ValueError("broken on purpose")

    def work(made: Results, *_: object) -> None:
        made.add("publish.sqlite3.adds", 0.1, "ms")

    monkeypatch.setattr(command, "PARTS", {"sqlite": (fail, ("sqlite.",)), "publish": (work, ("publish.",))})
    monkeypatch.setattr(command, "running", _no_server)
    out = tmp_path / "numbers.md"
    assert command.main(["--quick", "--out", str(out)]) == 1
    text = out.read_text()
    assert "ValueError: broken on purpose" in text
    assert "0.10 ms" in text
    assert command.main(["--page", "--out", str(out)]) == 0
    assert out.read_text() == text


def _no_server(folder: Path) -> None:
    raise RuntimeError("no server in this test")


def test_an_unknown_part_is_refused_with_the_names_of_the_known(capsys):
    with pytest.raises(SystemExit):
        command.main(["--only", "pg,speed"])
    assert "unknown part 'speed'; choose from sqlite, pg" in capsys.readouterr().err


@pytest.mark.parametrize("peer", sizes.PEERS)
def test_every_peer_has_a_script_and_a_lock_file_with_hashes(peer):
    assert (ROOT / "benchmarks" / "peers" / f"run_{peer.replace('-', '_')}.py").exists()
    lock = (ROOT / "requirements" / f"bench-{peer}.lock").read_text()
    pinned = re.findall(r"^[a-z0-9._-]+(?:\[[a-z,]+\])?==", lock, flags=re.MULTILINE)
    assert len(pinned) >= 3
    assert lock.count("--hash=sha256:") >= len(pinned)
    assert machine._locked(peer) != "unknown"

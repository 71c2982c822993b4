"""The figures of agent hooks: each goal reads its two figures, and the page shows them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import goals, machine, page  # noqa: E402
from benchmarks.measure import Results  # noqa: E402


def filled() -> Results:
    made = Results()
    made.facts = machine.facts(ROOT) | {"command": "python -m benchmarks"}
    for state in ("up", "down", "busy"):
        for form, p50 in (("true", 1.0), ("bare", 10.0), ("python", 12.0), ("fast", 4.0)):
            made.add(f"receiver.{state}.{form}.p50", p50, "ms")
            made.add(f"receiver.{state}.{form}.p99", p50 * 2, "ms")
    for form, took in (("true", 20.0), ("bare", 300.0), ("python", 420.0), ("fast", 100.0)):
        made.add(f"receiver.crowd.{form}", took, "ms")
    for name, p99 in (("alone", 15.0), ("beside noise elsewhere", 20.0), ("beside noise", 45.0)):
        made.add(f"hooks.{name}.p50", 8.0, "ms")
        made.add(f"hooks.{name}.p99", p99, "ms")
    return made


def test_each_goal_of_the_hooks_reads_its_figures():
    found = {goal.id: goal for goal in goals.goals()}
    read = {id: round(goal.read(filled()) or 0, 2) for id, goal in found.items() if id.startswith(("P1 ", "hooks "))}
    assert read == {
        **{f"P1 python {state}": 1.2 for state in ("up", "down", "busy")},
        **{f"P1 fast {state}": 4.0 for state in ("up", "down", "busy")},
        **{f"P1 {form} {state} tail": 2.0 for form in ("python", "fast") for state in ("up", "down", "busy")},
        "P1 crowd": 1.4, "hooks p50": 8.0, "hooks noise": 3.0,
    }  # fmt: skip
    assert [id for id in read if not found[id].met(filled())] == ["hooks noise"]


def test_the_page_shows_them_and_nothing_where_there_are_none(tmp_path: Path):
    target = tmp_path / "numbers.md"
    page.write(filled(), target)
    text = target.read_text(encoding="utf-8")
    assert "| daemon busy, p99 | 2.00 ms | 20.0 ms | 24.0 ms | 8.00 ms |" in text
    assert "| beside noise | 8.00 ms | 45.0 ms |" in text
    empty = Results()
    empty.facts = filled().facts
    page.write(empty, target)
    assert "## Hooks of agents" not in target.read_text(encoding="utf-8")

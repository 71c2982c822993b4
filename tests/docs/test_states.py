"""The table of states in the docs, and its diagram, agree with the table in the code."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.domain.states import REASONS_OF, STATE_RULES, Reason, State

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "states.md"
DIAGRAM = ROOT / "architecture" / "egress.md"
BEGIN, END = "<!-- states:begin -->\n", "<!-- states:end -->\n"


def rendered() -> str:
    lines = ["", "| from | trigger | to | reasons | meaning |", "|---|---|---|---|---|"]
    for rule in STATE_RULES:
        reasons = ", ".join(f"`{reason}`" for reason in rule.reasons)
        lines.append(f"| `{rule.before}` | {rule.trigger} | `{rule.after}` | {reasons} | {rule.meaning} |")
    lines += ["", "| state | reasons |", "|---|---|"]
    for state in State:
        reasons = ", ".join(f"`{reason}`" for reason in Reason if reason in REASONS_OF[state])
        lines.append(f"| `{state}` | {reasons or '–'} |")
    return "\n".join([*lines, "", ""])


def test_the_table_in_the_docs_is_the_table_in_the_code():
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0] == rendered()


def test_the_diagram_shows_every_transition_and_no_other():
    (diagram,) = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", DIAGRAM.read_text(encoding="utf-8"), re.DOTALL)
    drawn = re.findall(r"^ +(\w+) --> (\w+): ([\w ]+?)(?: \([\w, ]+\))?$", diagram, re.MULTILINE)
    expected = [(rule.before, rule.after, rule.trigger.replace(":", "")) for rule in STATE_RULES]
    assert sorted(drawn) == sorted(expected)
    assert len(diagram.splitlines()) == len(expected) + 1
    assert "[*] --> pending" in diagram


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + rendered() + END + rest.partition(END)[2], encoding="utf-8")

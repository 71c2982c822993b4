"""The cost of an event: the profiler finds where the CPU goes, and statements of the server are named."""

from __future__ import annotations

import doctest
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))

import sampling  # noqa: E402
from benchmarks import machine, orders, page  # noqa: E402
from benchmarks.cost import statements  # noqa: E402
from benchmarks.measure import Results  # noqa: E402

from holdfast.domain.event import new_event  # noqa: E402
from holdfast.store.postgres.statements import sql  # noqa: E402


@pytest.mark.parametrize("module", [sampling, statements])
def test_the_examples_in_the_docstrings_hold(module):
    done = doctest.testmod(module)
    assert done.attempted >= 1
    assert done.failed == 0


def test_the_profiler_shows_the_module_that_works():
    profile = sampling.Sampling()
    profile.start()
    ends = time.process_time() + 0.3
    while time.process_time() < ends:
        new_event("bench.event", {"text": "x" * 500})
    shares = profile.stop()
    assert sum(shares.values()) == pytest.approx(1.0)
    assert sum(share for place, share in shares.items() if place.startswith("domain/")) > 0.5


def test_a_statement_of_the_store_is_found_by_its_text():
    text = sql.unrouted_first.replace("{schema}", "holdfast")
    assert statements.name_of(f"  {text}") == "unrouted_first"
    assert statements.name_of("SELECT something FROM elsewhere") == "select something from elsewhere"


@pytest.mark.slow
def test_the_whole_path_reports_its_cost_and_profile(tmp_path, monkeypatch):
    monkeypatch.setattr(orders, "CACHE", tmp_path)
    url = f"sqlite:///{tmp_path}/o.db"
    result = orders.ask(sys.executable, "holdfast", url=url, work="whole", count=5000, profile=True)
    assert result["work_cpu_s"] > 0
    assert result["profile"]


def test_the_page_divides_the_cpu_of_the_server_among_its_statements(tmp_path):
    made = Results()
    made.facts = machine.facts(ROOT) | {"command": "python -m benchmarks"}
    made.facts["cost"] = {
        "postgres": {
            "profile": [["domain/event", 0.25], ["asyncio", 0.1]],
            "statements": [["route_plain", 0.5, 1.0], ["COMMIT", 0.5, 0.5]],
        }
    }
    made.add("cost.postgres.this process", 20.0, "µs")
    made.add("cost.postgres.server: connections and vacuum", 30.0, "µs")
    made.add("cost.postgres.all", 50.0, "µs")
    page.write(made, tmp_path / "numbers.md")
    text = (tmp_path / "numbers.md").read_text()
    assert "| domain/event | 25% | 5.00 µs |" in text
    assert "| `route_plain` | 50% | 100% | 20.0 µs |" in text
    assert "| PostgreSQL | 20.0 µs | 30.0 µs | 50.0 µs |" in text

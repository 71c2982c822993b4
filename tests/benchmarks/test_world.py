"""The same job with other libraries: what is counted as user code, and which webhooks count as received."""

from __future__ import annotations

import http.client
import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.domain.signature import sign

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import machine, page  # noqa: E402
from benchmarks.measure import Results  # noqa: E402
from benchmarks.orders import Failed  # noqa: E402
from benchmarks.world import LIBRARIES, compare  # noqa: E402
from benchmarks.world.checking import SECRET, Checker  # noqa: E402


def _post(url: str, body: bytes, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("POST", "/hook", body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_signed_webhook_is_accepted_and_a_changed_one_is_not():
    body = json.dumps({"item": "tea"}).encode()
    with Checker() as checker:
        assert _post(checker.url, body, sign([SECRET], "evt_1", 1_700_000_000, body)) == 200
        checker.expect(1, 10)
        _post(checker.url, body + b" ", sign([SECRET], "evt_2", 1_700_000_000, body))
        with pytest.raises(Failed, match="the signature of evt_2 is wrong"):
            checker.expect(2, 10)


@pytest.mark.parametrize("name", LIBRARIES)
def test_lines_of_user_code_leave_out_the_harness(name):
    script = ROOT / "benchmarks" / "world" / f"app_{name.replace('-', '_')}.py"
    text = script.read_text()
    assert "from harness import run  # harness" in text
    own = compare.count_lines(script)
    assert 10 < own < len(text.splitlines())
    assert compare.lines_of(name) > own  # the configuration, or the code that sends the webhook


def test_only_the_first_arrival_of_a_placed_order_counts(tmp_path):
    log = tmp_path / "log"
    log.write_text("100.250 a\n100.500 b\n101.000 a\n100.100 other\n")
    placed = {"placed": [("a", 100.0), ("b", 100.4)]}
    times, result = compare._arrived(log, placed)
    assert [round(value) for value in times] == [250, 100]
    assert round(result["took_s"], 3) == 0.5


def test_the_page_shows_each_library_and_why_one_is_missing(tmp_path):
    made = Results()
    made.facts = machine.facts(ROOT) | {"command": "python -m benchmarks", "world": {"holdfast": "as it comes"}}
    made.add("world.holdfast.rate", 1000.0, "/s")
    made.add("world.holdfast.lines", 20, "lines")
    made.miss("world.oban", "it could not be installed")
    page.write(made, tmp_path / "numbers.md")
    text = (tmp_path / "numbers.md").read_text()
    assert "| **holdfast** | 1,000 /s | – | – | – | – | – | – | 20 |" in text
    assert "| it could not be installed |" in text

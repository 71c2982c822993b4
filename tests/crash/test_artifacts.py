"""What is kept after a broken promise: its details, and records and logs up to a size limit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evidence_samples import good
from holdfast.proof.kills import artifacts
from holdfast.proof.kills.artifacts import trim, write_violations
from holdfast.proof.kills.checker import check
from holdfast.proof.kills.evidence import Holders, Lease
from holdfast.proof.kills.records import Disruption
from holdfast.proof.kills.report import Report


def test_the_details_of_a_violation_hold_all_records_of_its_delivery(tmp_path: Path) -> None:
    lease, other = Lease(1, 0, 8, 40, "taken", 71), Lease(2, 1, 65, 80, "settled", 73)
    holders = Holders([lease, other], [], [], 20)
    nearby, later = (
        Disruption("sessions terminated", None, 15, 42, 42),
        Disruption("daemon stopped", 0, 99_000, 99_900, 1),
    )
    evidence = replace(good(), killed=[], holders=holders, disruptions=[nearby, later])
    report = Report(evidence, check(evidence), 7, 1.0)
    assert not report.ok
    write_violations(report, tmp_path)
    content = json.loads((tmp_path / "violations.json").read_text())
    assert (content["seed"], content["violations"]) == (7, len(report.verdict.violations))
    details = next(one for one in content["details"] if one["promise"] == "duplicate")
    assert [(item["n"], item["answer"]) for item in details["requests"]] == [(1, "ok"), (2, "ok")]
    assert [item["token"] for item in details["leases"]] == [71]
    assert [item["id"] for item in details["deliveries"]] == [1]
    assert [item["kind"] for item in details["disruptions"]] == ["sessions terminated"], "not a later one"
    takeover = next(one for one in content["details"] if one["promise"] == "takeover")
    assert [item["token"] for item in takeover["leases"]] == [71]


def test_kept_files_have_a_size_limit_and_details_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "LOG_MAX_BYTES", 1000)
    monkeypatch.setattr(artifacts, "KEPT_MAX_BYTES", 5000)
    home = tmp_path / "home"
    home.mkdir()
    (home / "holdfast.db").write_bytes(b"x" * 4000)
    (tmp_path / "sink.jsonl").write_bytes(b"x" * 2000)
    (tmp_path / "violations.json").write_bytes(b"x" * 1500)
    (tmp_path / "daemons.log").write_text("".join(f"line {n}\n" for n in range(1000)))
    kept = trim(tmp_path)
    assert kept <= 5000
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "daemons.log", "sink.jsonl", "violations.json",
    ]  # fmt: skip
    lines = (tmp_path / "daemons.log").read_text().splitlines()
    assert (lines[-1], lines[0].startswith("line ")) == ("line 999", True)
    assert kept == sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())

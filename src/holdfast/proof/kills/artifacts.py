"""What is kept after a broken promise: the details of each violation, and records and logs up to a size limit.

A schema on PostgreSQL is dropped with its campaign, so the rows that concern a violation are written to a file here.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.proof.kills.evidence import Evidence, Violation
from holdfast.proof.kills.report import Report

DETAILS_MAX = 20
"""Per broken promise."""
ROWS_MAX = 200
LOG_MAX_BYTES = 16 << 20
KEPT_MAX_BYTES = 256 << 20
NEAR_MS = 30_000


def write_violations(report: Report, folder: Path) -> None:
    """Write `violations.json`: each violation with all records and rows of its deliveries."""
    evidence, found = report.evidence, report.verdict.violations
    content = {
        "seed": report.seed,
        "violations": len(found),
        "details": [_details(evidence, violation) for violation in _first_of_each(found)],
        "lives": [_plain(record) for record in (*evidence.started, *evidence.killed)],
    }
    (folder / "violations.json").write_text(json.dumps(content, indent=1))


def trim(folder: Path) -> int:
    """Cut logs to their last part, and delete stores, then records, beyond the limit. Returns the bytes kept."""
    for log in folder.rglob("*.log"):
        _keep_end(log, LOG_MAX_BYTES)
    left = KEPT_MAX_BYTES
    for path in sorted(_files(folder), key=_priority):
        size = path.stat().st_size
        if size > left:
            path.unlink()
        else:
            left -= size
    return KEPT_MAX_BYTES - left


def _first_of_each(violations: Sequence[Violation]) -> Iterator[Violation]:
    seen: Counter[str] = Counter()
    for violation in violations:
        seen[violation.promise] += 1
        if seen[violation.promise] <= DETAILS_MAX:
            yield violation


def _details(evidence: Evidence, violation: Violation) -> dict[str, Any]:
    """The subject of a violation is an event id, a key, or `delivery N`; for others there is only the message."""
    rows = [row for row in evidence.store.deliveries if violation.subject in (row.event, f"delivery {row.id}")]
    ids, events = {row.id for row in rows}, {row.event for row in rows} | {violation.subject}
    requests = [item for item in evidence.received if item.id in events or item.key in events][:ROWS_MAX]
    leases = [] if evidence.holders is None else [lease for lease in evidence.holders.leases if lease.delivery in ids]
    settles = (
        [] if evidence.holders is None else [settle for settle in evidence.holders.settles if settle.delivery in ids]
    )
    times_ms = [item.at_ms for item in requests] + [lease.claimed_ms for lease in leases]
    return {
        **violation._asdict(),
        "deliveries": [_plain(row) for row in rows[:ROWS_MAX]],
        "requests": [{**_plain(item), "answer": evidence.answer_of(item)} for item in requests],
        "leases": [_plain(lease) for lease in leases[:ROWS_MAX]],
        "settles": [_plain(settle) for settle in settles[:ROWS_MAX]],
        "disruptions": [
            _plain(item) for item in evidence.disruptions if times_ms and _is_near(item.at_ms, item.until_ms, times_ms)
        ],
    }


def _is_near(began_ms: int, until_ms: int, times_ms: list[int]) -> bool:
    return began_ms - NEAR_MS <= max(times_ms) and min(times_ms) <= until_ms + NEAR_MS


def _plain(record: Any) -> dict[str, Any]:
    return {"kind": type(record).__name__, **record._asdict()}


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _priority(path: Path) -> tuple[int, int]:
    """Details first, then records, logs, and other files; small files before large ones."""
    kinds = (".json", ".jsonl", ".log")
    return kinds.index(path.suffix) if path.suffix in kinds else len(kinds), path.stat().st_size


def _keep_end(path: Path, size: int) -> None:
    if path.stat().st_size <= size:
        return
    with path.open("rb") as file:
        file.seek(-size, os.SEEK_END)
        end = file.read()
    path.write_bytes(end.partition(b"\n")[2])

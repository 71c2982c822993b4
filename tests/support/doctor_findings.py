"""Findings of `holdfast doctor`, read for a test."""

from __future__ import annotations

from daemon import Said
from holdfast.operations.doctor.finding import Finding


def levels(found: list[Finding]) -> dict[str, str]:
    return {finding.id: finding.level for finding in found}


def said_levels(said: Said) -> dict[str, str]:
    return {finding["id"]: finding["level"] for finding in said.json["findings"]}


def text_of(said: Said, id: str) -> str:
    return next(finding["text"] for finding in said.json["findings"] if finding["id"] == id)

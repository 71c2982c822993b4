"""Checks of refused requests."""

from __future__ import annotations

from typing import Any

from daemon import Daemon
from rawhttp import Answer


def check_problem(answer: Answer, status: int, message: str = "") -> dict[str, Any]:
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json
    assert {"type", "title", "status", "detail"} <= set(problem)
    assert problem["status"] == status
    assert message in problem["detail"], problem
    assert len(problem["detail"]) < 1000
    assert problem["detail"].isprintable()
    return problem


def accepted(daemon: Daemon, type: str) -> int:
    return len(daemon.request("GET", f"/api/events?type={type}")[1]["items"])

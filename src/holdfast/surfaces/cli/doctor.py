"""`holdfast doctor`: examine this machine's Holdfast, with or without a daemon, and say what to do."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from holdfast.domain.errors import HoldfastError
from holdfast.home import Home
from holdfast.surfaces.cli.client import find_address, find_client
from holdfast.surfaces.cli.hooks import last_events
from holdfast.surfaces.cli.output import many, say, show, visible

ANSWER_S = 5.0
FAULTS = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration says, or why it says nothing."""

    url: str | None
    low_water_bytes: int = 0
    ballast_bytes: int = 0
    fault: str | None = None


def run_doctor(home: Home, settings: Settings, as_json: bool) -> int:
    from holdfast.operations.agents.machine import this_machine
    from holdfast.operations.doctor.examine import Case, examine

    status, fault = _ask(home)
    case = Case(
        home=home,
        machine=this_machine(),
        url=settings.url,
        low_water_bytes=settings.low_water_bytes,
        ballast_bytes=settings.ballast_bytes,
        now_ms=time.time_ns() // 1_000_000,
        config_fault=settings.fault,
        status=status,
        daemon_fault=fault,
        heard=None if status is None else last_events(),
    )
    answer = asyncio.run(examine(case))
    show(answer, as_json, _say)
    return 0 if answer["healthy"] else FAULTS


def _ask(home: Home) -> tuple[dict[str, Any] | None, str | None]:
    """What the daemon answers, or why one that should be there does not."""
    try:
        if find_address(home) is None:
            return None, None
        return find_client(ANSWER_S).get("/api/status"), None
    except HoldfastError as error:
        return None, error.message
    except OSError as error:
        return None, f"{error.filename or 'the system'}: {error.strerror or error}"


def _say(answer: dict[str, Any]) -> None:
    findings = answer["findings"]
    width = max(len(finding["id"]) for finding in findings)
    for finding in findings:
        say(visible(f"{finding['level']:<4}  {finding['id']:<{width}}  {finding['text']}"))
        if finding["todo"]:
            say(visible(f"{'':4}  {'':{width}}  -> {finding['todo']}"))
    fails = sum(finding["level"] == "fail" for finding in findings)
    warns = sum(finding["level"] == "warn" for finding in findings)
    say(f"{many(fails, 'failure')}, {many(warns, 'warning')}")

"""`holdfast doctor`: examine this machine's Holdfast, with or without a daemon, and say what to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.domain.errors import HoldfastError
from holdfast.domain.retry import Policy
from holdfast.home import MASKED, Home, shown_url
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
    policies: Mapping[str, Policy] = field(default_factory=dict)


def run_doctor(home: Home, settings: Settings, as_json: bool) -> int:
    from holdfast.agents.install.environment import this_environment
    from holdfast.operations.doctor.examine import Case, examine

    status, fault = _ask(home)
    url, unreachable = _store_of(status, settings.url)
    case = Case(
        home=home,
        environment=this_environment(),
        url=url,
        unreachable=unreachable,
        low_water_bytes=settings.low_water_bytes,
        ballast_bytes=settings.ballast_bytes,
        now_ms=time.time_ns() // 1_000_000,
        config_fault=settings.fault,
        status=status,
        daemon_fault=fault,
        heard=None if status is None else last_events(),
        policies=settings.policies,
    )
    answer = asyncio.run(examine(case))
    show(answer, as_json, _say)
    return 0 if answer["healthy"] else FAULTS


def _store_of(status: dict[str, Any] | None, configured: str | None) -> tuple[str | None, str | None]:
    """The store to examine: the one that the daemon keeps, which may be an application's own (`up --app`).

    The second part names it where only the daemon can open it.
    """
    kept = None if status is None else status.get("store")
    if kept is None or (configured is not None and shown_url(configured) == kept):
        return configured, None
    return (None, kept) if MASKED in kept else (kept, None)


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

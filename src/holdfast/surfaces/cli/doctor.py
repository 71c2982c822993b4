"""`holdfast doctor`: check the installation, with or without a daemon."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from holdfast.domain.errors import BadConfig, HoldfastError
from holdfast.domain.json_value import JsonObject
from holdfast.domain.retry import Policy
from holdfast.home import MASKED, Home, find_home, shown_url, store_url
from holdfast.surfaces.cli.client import find_address, find_client
from holdfast.surfaces.cli.hooks import last_events
from holdfast.surfaces.cli.options import Command, json_option
from holdfast.surfaces.cli.output import echo, plural, show, visible

if TYPE_CHECKING:
    from holdfast.operations.doctor.finding import Diagnosis

ANSWER_S = 5.0
FAULTS = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that the checks need, or `fault`: why they cannot be read."""

    url: str | None
    low_water_bytes: int = 0
    ballast_bytes: int = 0
    fault: str | None = None
    policies: Mapping[str, Policy] = field(default_factory=dict)


@click.command(cls=Command)
@json_option
def doctor(as_json: bool) -> int:
    """Check the installation and suggest fixes.

    Needs no daemon and changes nothing. Exits with 1 if a check fails.
    """
    home = find_home()
    answer = _examine(home, _read_settings(home))
    show(answer, as_json, _print)
    return 0 if answer.healthy else FAULTS


def _read_settings(home: Home) -> Settings:
    from holdfast.config.config import load_config

    try:
        config = load_config(home.config)
    except BadConfig as error:
        return Settings(None, fault=error.message)
    url = os.environ.get("HOLDFAST_STORE") or config.store or store_url(home)
    return Settings(url, config.low_water_bytes, config.ballast_bytes, policies=config.policies)


def _examine(home: Home, settings: Settings) -> Diagnosis:
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
        last_events=None if status is None else last_events(),
        policies=settings.policies,
    )
    return asyncio.run(examine(case))


def _store_of(status: JsonObject | None, configured: str | None) -> tuple[str | None, str | None]:
    """The URL of the store to check: that of the running daemon, which may be an application's own (`up --app`).

    The second value is its masked URL if only the daemon knows the password.
    """
    kept = None if status is None else status.get("store")
    if kept is None or (configured is not None and shown_url(configured) == kept):
        return configured, None
    return (None, kept) if MASKED in kept else (kept, None)


def _ask(home: Home) -> tuple[JsonObject | None, str | None]:
    """The daemon's status, or why a running daemon does not answer."""
    try:
        if find_address(home) is None:
            return None, None
        return find_client(ANSWER_S).get("/api/status"), None
    except HoldfastError as error:
        return None, error.message
    except OSError as error:
        return None, f"{error.filename or 'the system'}: {error.strerror or error}"


def _print(answer: Diagnosis) -> None:
    findings = answer.findings
    width = max(len(finding.id) for finding in findings)
    for finding in findings:
        echo(visible(f"{finding.level:<4}  {finding.id:<{width}}  {finding.text}"))
        if finding.todo:
            echo(visible(f"{'':4}  {'':{width}}  -> {finding.todo}"))
    fails = sum(finding.level == "fail" for finding in findings)
    warns = sum(finding.level == "warn" for finding in findings)
    echo(f"{plural(fails, 'failure')}, {plural(warns, 'warning')}")

"""`holdfast doctor`: check the installation, with or without a daemon."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from holdfast.domain.errors import BadConfig, HoldfastError
from holdfast.domain.json_value import KnownJson
from holdfast.domain.retry import Policy
from holdfast.home import MASKED, Home, find_home, masked_url, store_url
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.client import find_address, find_client
from holdfast.surfaces.cli.hooks import last_events
from holdfast.surfaces.cli.options import Command, app_option, json_option, store_option
from holdfast.surfaces.cli.output import colored, echo, plural, show, visible, warn
from holdfast.surfaces.cli.text_width import wrap

if TYPE_CHECKING:
    from holdfast.config.promote_at import PromoteAt
    from holdfast.operations.doctor.finding import Diagnosis, Finding
    from holdfast.streams.sinks.sink import SinkConfig

ANSWER_S = 5.0
FAULTS = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that the checks need, or `fault`: why they cannot be read. `chosen`: the store was named."""

    url: str | None
    low_water_bytes: int = 0
    ballast_bytes: int = 0
    fault: str | None = None
    policies: Mapping[str, Policy] = field(default_factory=dict)
    sinks: Sequence[SinkConfig] = ()
    promote_at: PromoteAt | None = None
    chosen: bool = False
    driver: str = "apsw"


@click.command(cls=Command)
@store_option
@app_option
@click.option("--fix", is_flag=True, help="Repair what can be repaired safely, then check again.")
@json_option
def doctor(store: str | None, app: str | None, fix: bool, as_json: bool) -> int:
    """Check the installation and suggest fixes.

    Needs no daemon, and changes nothing without --fix. Exits with 1 if a check fails.
    """
    if store is not None and app is not None:
        raise click.UsageError("--store and --app cannot be combined")
    home = find_home()
    settings = _read_settings(home, store, app)
    answer = _examine(home, settings)
    if fix:
        from holdfast.agents.install.environment import this_environment
        from holdfast.operations.doctor.fixes import apply_fixes

        for text in apply_fixes(answer.findings, home, this_environment()):
            warn(f"fixed: {text}")
        answer = _examine(home, settings)
    show(answer, as_json, _print)
    return 0 if answer.healthy else FAULTS


def _read_settings(home: Home, store: str | None, app: str | None) -> Settings:
    from holdfast.config.config import load_config

    if app is not None:
        from holdfast.config.application import load_app

        store = load_app(app).url
    try:
        config = load_config(home.config)
    except BadConfig as error:
        return Settings(store, fault=error.message, chosen=store is not None)
    url = store or os.environ.get("HOLDFAST_STORE") or config.store or store_url(home)
    return Settings(
        url,
        config.low_water_bytes,
        config.ballast_bytes,
        policies=config.policies,
        sinks=config.sinks,
        promote_at=config.promote_at,
        chosen=store is not None,
        driver="apsw" if app is None else "sqlite3",
    )


def _examine(home: Home, settings: Settings) -> Diagnosis:
    from holdfast.agents.install.environment import this_environment
    from holdfast.operations.doctor.examine import Case, examine

    status, fault = _ask(home)
    url, unreachable = (settings.url, None) if settings.chosen else _store_of(status, settings.url)
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
        sinks=settings.sinks,
        promote_at=settings.promote_at,
        owns_store=status is not None and url is not None and status.get("store") == masked_url(url),
        driver=settings.driver,
    )
    return asyncio.run(examine(case))


def _store_of(status: KnownJson | None, configured: str | None) -> tuple[str | None, str | None]:
    """The URL of the store to check: that of the running daemon, which may be an application's own (`up --app`).

    The second value is its masked URL if only the daemon knows the password.
    """
    kept = None if status is None else status.get("store")
    if kept is None or (configured is not None and masked_url(configured) == kept):
        return configured, None
    return (None, kept) if MASKED in kept else (kept, None)


def _ask(home: Home) -> tuple[KnownJson | None, str | None]:
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
        level = colored(f"{finding.level:<4}", "level", finding.level)
        _print_finding(level, finding, width)
    fails = sum(finding.level == "fail" for finding in findings)
    warns = sum(finding.level == "warn" for finding in findings)
    echo(f"{plural(fails, 'failure')}, {plural(warns, 'warning')}")


def _print_finding(level: str, finding: Finding, width: int) -> None:
    """In a terminal texts are aligned behind the id; a remedy is not divided, so that its command can be copied."""
    lines = [finding.text]
    if terminal.is_terminal():
        lines = wrap(visible(finding.text), max(20, terminal.width() - width - 8))
    echo(f"{level}  {visible(finding.id):<{width}}  {visible(lines[0])}")
    for line in lines[1:]:
        echo(f"{'':{width + 8}}{line}")
    if finding.todo:
        echo(visible(f"{'':{width + 8}}-> {finding.todo}"))

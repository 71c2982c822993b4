"""`holdfast service`: run the daemon as a user service."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.domain.errors import HoldfastError
from holdfast.home import find_home
from holdfast.surfaces.cli.client import find_client
from holdfast.surfaces.cli.options import Group, json_option
from holdfast.surfaces.cli.output import echo, show, visible

if TYPE_CHECKING:
    from holdfast.agents.install.answers import InstalledService, RemovedService, ServiceStatus
    from holdfast.agents.install.service import Service

ANSWER_S = 5.0
FAILED = 1


@click.group(cls=Group)
def service() -> None:
    """Run the daemon as a user service.

    Uses systemd on Linux and launchd on macOS.
    """


@service.command()
@json_option
def install(as_json: bool) -> int:
    """Install the service, enable it and start it now. Safe to repeat."""
    answer = install_service(ask=not as_json and sys.stdin.isatty())
    show(answer, as_json, print_service)
    return FAILED if answer.failed else 0


@service.command()
@json_option
def uninstall(as_json: bool) -> int:
    """Stop the service and remove its files."""
    answer = make_service().uninstall()
    show(answer, as_json, _print_removed)
    return FAILED if answer.failed else 0


@service.command()
@json_option
def status(as_json: bool) -> None:
    """Show whether the service is installed, up to date and running."""
    show(make_service().status(), as_json, _print_status)


def make_service() -> Service:
    from holdfast.agents.install.environment import this_environment
    from holdfast.agents.install.service import Service

    return Service(this_environment(), find_home())


def install_service(ask: bool = False) -> InstalledService:
    """Install the service with the variables that the configuration names: from here, or as they were stored."""
    from holdfast.config.variables import variables_named

    service = make_service()
    by_hand = service.status().running is not True and is_answering()
    named = variables_named(find_home().config)
    values = _values(named, service.variables.read(), ask)
    answer = service.install(values)
    unset = sorted(set(named) - set(values))
    answer = replace(answer, unset=unset, notes=[*answer.notes, *_notes(named, unset, service.variables.path)])
    if by_hand:
        note = "a daemon that was started by hand uses this home; stop it so that the service can run"
        return replace(answer, notes=[*answer.notes, note])
    return answer


def _values(named: Mapping[str, bool], stored: Mapping[str, str], ask: bool) -> dict[str, str]:
    """The values of the variables: of this environment, of the last installation, or typed in."""
    values = {name: found for name in named if (found := os.environ.get(name) or stored.get(name))}
    for name in named if ask else ():
        if name not in values:
            given = click.prompt(f"{name} (empty: leave it unset)", default="", show_default=False, hide_input=True)
            values.update({name: given} if given else {})
    return values


def _notes(named: Mapping[str, bool], unset: list[str], path: Path) -> list[str]:
    notes = []
    if stored := sorted(set(named) - set(unset)):
        notes.append(f"variables stored in {path}: {', '.join(stored)}")
    for name in unset:
        effect = "the daemon does not start without it" if named[name] else "its default is used"
        notes.append(f"{name} is not set ({effect}); set it and run again: holdfast service install")
    return notes


def is_answering() -> bool:
    """Whether a daemon of this home answers."""
    try:
        return find_home().address_file.exists() and bool(find_client(ANSWER_S).get("/api/status"))
    except (HoldfastError, OSError):
        return False


def print_service(answer: InstalledService) -> None:
    for line in answer.diff.splitlines():
        echo(visible(line))
    echo(visible(f"service: {'written' if answer.changed else 'up to date'}: {answer.path}"))
    echo(f"service: {_running(answer.running)}")
    _print_notes(answer.notes)
    if os.environ.get("HOLDFAST_STORE"):
        echo("service: HOLDFAST_STORE is not passed on, since it may hold a password; set `store` in holdfast.yml")


def _print_removed(answer: RemovedService) -> None:
    if answer.changed:
        echo(visible(f"service: removed: {answer.path}"))
    _print_notes(answer.notes)


def _print_status(answer: ServiceStatus) -> None:
    echo(visible(f"service: {answer.state}: {answer.path}"))
    echo(f"service: {_running(answer.running)}")
    _print_notes(answer.notes)


def _print_notes(notes: list[str]) -> None:
    for note in notes:
        echo(visible(f"service: {note}"))


def _running(running: bool | None) -> str:
    return {True: "running", False: "not running", None: "running state unknown"}[running]

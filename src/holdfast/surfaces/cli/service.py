"""`holdfast service`: run the daemon as a user service."""

from __future__ import annotations

import os
from dataclasses import replace
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


@click.group(cls=Group)
def service() -> None:
    """Run the daemon as a user service.

    Uses systemd on Linux and launchd on macOS.
    """


@service.command()
@json_option
def install(as_json: bool) -> None:
    """Install the service, enable it and start it now. Safe to repeat."""
    show(install_service(), as_json, print_service)


@service.command()
@json_option
def uninstall(as_json: bool) -> None:
    """Stop the service and remove its file."""
    show(make_service().uninstall(), as_json, _print_removed)


@service.command()
@json_option
def status(as_json: bool) -> None:
    """Show whether the service is installed, up to date and running."""
    show(make_service().status(), as_json, _print_status)


def make_service() -> Service:
    from holdfast.agents.install.environment import this_environment
    from holdfast.agents.install.service import Service

    return Service(this_environment(), find_home())


def install_service() -> InstalledService:
    service = make_service()
    by_hand = service.status().running is not True and _is_answering()
    answer = service.install()
    if by_hand:
        note = "a daemon that was started by hand uses this home; stop it so that the service can run"
        return replace(answer, notes=[*answer.notes, note])
    return answer


def _is_answering() -> bool:
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

"""`holdfast service`: the daemon as a service of the user, there after a reboot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from holdfast.domain.errors import HoldfastError
from holdfast.home import find_home
from holdfast.surfaces.cli.client import find_client
from holdfast.surfaces.cli.options import NearGroup, json_option
from holdfast.surfaces.cli.output import say, show, visible

if TYPE_CHECKING:
    from holdfast.agents.install.service import Service

ANSWER_S = 5.0


@click.group(cls=NearGroup)
def service() -> None:
    """Run the daemon as a service of the user.

    systemd on Linux, launchd on macOS.
    """


@service.command()
@json_option
def install(as_json: bool) -> None:
    """Write the service's file, have it start with the machine, and start it now. Harmless to repeat."""
    show(install_service(), as_json, say_service)


@service.command()
@json_option
def uninstall(as_json: bool) -> None:
    """Stop the service and remove exactly its file."""
    show(make_service().uninstall(), as_json, _say_removed)


@service.command()
@json_option
def status(as_json: bool) -> None:
    """Say whether the service is installed, up to date and running."""
    show(make_service().status(), as_json, _say_status)


def make_service() -> Service:
    from holdfast.agents.install.environment import this_environment
    from holdfast.agents.install.service import Service

    return Service(this_environment(), find_home())


def install_service() -> dict[str, Any]:
    service = make_service()
    by_hand = service.status()["running"] is not True and _is_answering()
    answer = service.install()
    if by_hand:
        answer["notes"].append("a daemon that was started by hand keeps this home; stop it, and the service can run")
    return answer


def _is_answering() -> bool:
    try:
        return find_home().address_file.exists() and bool(find_client(ANSWER_S).get("/api/status"))
    except (HoldfastError, OSError):
        return False


def say_service(answer: dict[str, Any]) -> None:
    for line in answer["diff"].splitlines():
        say(visible(line))
    say(visible(f"service: {'written' if answer['changed'] else 'up to date'}: {answer['path']}"))
    say(f"service: {_running(answer['running'])}")
    _say_notes(answer)
    if os.environ.get("HOLDFAST_STORE"):
        say("service: HOLDFAST_STORE is not carried over: it may hold a password; put the store into holdfast.yml")


def _say_removed(answer: dict[str, Any]) -> None:
    if answer["changed"]:
        say(visible(f"service: removed: {answer['path']}"))
    _say_notes(answer)


def _say_status(answer: dict[str, Any]) -> None:
    say(visible(f"service: {answer['state']}: {answer['path']}"))
    say(f"service: {_running(answer['running'])}")
    _say_notes(answer)


def _say_notes(answer: dict[str, Any]) -> None:
    for note in answer["notes"]:
        say(visible(f"service: {note}"))


def _running(running: bool | None) -> str:
    return {True: "running", False: "not running", None: "whether it runs is not known"}[running]

"""`holdfast hooks`: wire the agent CLIs of this machine, take it back, and say how it stands."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from holdfast.domain.errors import HoldfastError
from holdfast.home import find_home
from holdfast.operations.elapsed import ago
from holdfast.surfaces.cli.client import find_client
from holdfast.surfaces.cli.options import NearGroup, json_option
from holdfast.surfaces.cli.output import say, show, show_table, visible

if TYPE_CHECKING:
    from holdfast.agents.install.installer import Installer

AGENTS = ("claude", "codex", "gemini", "qwen", "copilot", "cursor", "opencode")
EVENTS_MAX = 100  # as far back as the last event of each agent is looked for
ANSWER_S = 5.0
COLUMNS = ("agent", "state", "last_event", "path")

agent_option = click.option(
    "--agent", "names", type=click.Choice(AGENTS), multiple=True, help="Only this one. Repeat for more."
)
project_option = click.option("--project", is_flag=True, help="The files of the project here, not the user's.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")


@click.group(cls=NearGroup)
def hooks() -> None:
    """Wire the agent CLIs, unwire them, and see how it stands."""


@hooks.command()
@agent_option
@click.option("--tools/--no-tools", default=None, help="Tool events too, or not; left out: as it is, at first not.")
@project_option
@click.option("--service", is_flag=True, help="Install the daemon as a service as well.")
@dry_run_option
@json_option
def install(
    names: tuple[str, ...], tools: bool | None, project: bool, service: bool, dry_run: bool, as_json: bool
) -> int:
    """Wire the agent CLIs that are found on this machine; foreign hooks and comments stay.

    Shows each change. Harmless to repeat, and needed again after Holdfast moved.
    """
    answer = _installer(project, choose=True).install(names, tools, dry_run)
    answer["service"] = _install_service() if service and not dry_run else None
    show(answer, as_json, _say_installed)
    return _code(answer)


@hooks.command()
@agent_option
@project_option
@dry_run_option
@json_option
def uninstall(names: tuple[str, ...], project: bool, dry_run: bool, as_json: bool) -> int:
    """Take out what install put in: to the byte where nothing else changed, else exactly our entries."""
    answer = _installer(project).uninstall(names, dry_run)
    show(answer, as_json, _say_uninstalled)
    return _code(answer)


@hooks.command()
@agent_option
@project_option
@json_option
def status(names: tuple[str, ...], project: bool, as_json: bool) -> None:
    """Say of each agent CLI whether it is wired, trusted, switched off, and when it was last heard."""
    answer = _installer(project).status(names)
    seen = last_events()
    for item in answer["agents"]:
        item["last_event_at"] = None if seen is None else seen.get(item["agent"])
    answer["daemon"] = seen is not None
    show(answer, as_json, _say_status)


def last_events() -> dict[str, str] | None:
    """When an event of each agent was last accepted; None where no daemon can be asked."""
    try:
        page = find_client(ANSWER_S).get("/api/events", {"source": "hook", "limit": EVENTS_MAX})
    except (HoldfastError, OSError):
        return None
    seen: dict[str, str] = {}
    for event in page["items"]:
        seen.setdefault(str(event["properties"].get("agent")), event["accepted_at"])
    return seen


def _installer(project: bool, choose: bool = False) -> Installer:
    """`choose`: find out by a trial which receiver serves here; needed only where one is written down."""
    from dataclasses import replace

    from holdfast.agents.install.environment import find_program, this_environment
    from holdfast.agents.install.installer import Installer

    environment = this_environment()
    return Installer(replace(environment, program=find_program()) if choose else environment, find_home(), project)


def _install_service() -> dict[str, Any]:
    from holdfast.surfaces.cli.service import install_service

    return install_service()


def _code(answer: dict[str, Any]) -> int:
    return 1 if any(item["error"] for item in answer["agents"]) else 0


def _say_installed(answer: dict[str, Any]) -> None:
    items = answer["agents"]
    if all(item["result"] == "not found" for item in items):
        say(f"no agent CLI was found; looked for {', '.join(item['agent'] for item in items)}")
        say("name one to wire it before it is there: holdfast hooks install --agent claude")
        return
    _say_changes(answer, "wired")
    for item in items:
        if item["result"] == "unchanged":
            say(f"{item['agent']}: is wired already")
    if answer["dry_run"]:
        return
    if answer["service"] is not None:
        from holdfast.surfaces.cli.service import say_service

        say_service(answer["service"])
    else:
        say("next: holdfast service install   (the daemon runs now and after a reboot; or run: holdfast up)")
    say("then: holdfast hooks status")


def _say_uninstalled(answer: dict[str, Any]) -> None:
    _say_changes(answer, "unwired")
    if all(item["result"] == "unchanged" for item in answer["agents"]):
        say("nothing of ours was there")


def _say_changes(answer: dict[str, Any], done: str) -> None:
    for item in answer["agents"]:
        name = item["agent"]
        for file in item["files"]:
            for line in file["diff"].splitlines():
                say(visible(line))
            kept = f" (as it was: {file['copy']})" if file["copy"] else ""
            say(visible(f"{name}: {'would change' if answer['dry_run'] else done}: {file['path']}{kept}"))
        if item["error"]:
            say(visible(f"{name}: {item['result']}: {item['error']}"))
        for note in item["notes"]:
            say(visible(f"{name}: {note}"))
    if answer["dry_run"]:
        say("nothing was changed (--dry-run)")


def _say_status(answer: dict[str, Any]) -> None:
    for item in answer["agents"]:
        at = item["last_event_at"]
        item["last_event"] = ago(at, time.time()) if at else ("none lately" if answer["daemon"] else "unknown")
        item["path"] = None if item["state"] in ("not found", "not installed") else item["path"]
    show_table(answer["agents"], COLUMNS)
    for item in answer["agents"]:
        if item["detail"]:
            say(visible(f"{item['agent']}: {item['detail']}"))
    if not answer["daemon"]:
        say("no daemon answers, so when an agent was last heard is not known; start one with: holdfast up")

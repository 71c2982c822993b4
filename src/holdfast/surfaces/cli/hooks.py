"""`holdfast hooks`: install, remove and check the hooks of agent CLIs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from holdfast.agents.install.answers import AgentStatus, HookChanges, InstalledService
from holdfast.agents.registry import agent_names
from holdfast.domain.errors import HoldfastError
from holdfast.home import find_home
from holdfast.operations.answers.fields import extend
from holdfast.operations.elapsed import ago
from holdfast.surfaces.cli.client import find_client
from holdfast.surfaces.cli.options import Group, json_option
from holdfast.surfaces.cli.output import echo, show, show_table, visible

if TYPE_CHECKING:
    from holdfast.agents.install.installer import Installer

EVENTS_MAX = 100  # how many recent events are searched for the last one of each agent
ANSWER_S = 5.0
COLUMNS = ("agent", "state", "last_event", "path")

agent_option = click.option(
    "--agent", "names", type=click.Choice(agent_names()), multiple=True, help="Only this agent CLI. Repeatable."
)
project_option = click.option("--project", is_flag=True, help="Use the settings of the project in this folder.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")


@dataclass(frozen=True, slots=True)
class InstallAnswer(HookChanges):
    service: InstalledService | None


@dataclass(frozen=True, slots=True)
class AgentAnswer(AgentStatus):
    last_event_at: str | None


@dataclass(frozen=True, slots=True)
class StatusAnswer:
    """`daemon`: whether one answered, so that the times of the last events are known."""

    agents: list[AgentAnswer]
    daemon: bool


@click.group(cls=Group)
def hooks() -> None:
    """Install, remove and check the hooks of agent CLIs."""


@hooks.command()
@agent_option
@click.option(
    "--tools/--no-tools", default=None, help="Also send tool events. Default: keep the current setting (initially off)."
)
@project_option
@click.option("--service", is_flag=True, help="Also install the daemon as a service.")
@dry_run_option
@json_option
def install(
    names: tuple[str, ...], tools: bool | None, project: bool, service: bool, dry_run: bool, as_json: bool
) -> int:
    """Add hooks to the agent CLIs found on this machine. Other hooks and comments are kept.

    Prints each change. Safe to repeat; repeat it after Holdfast was moved or reinstalled elsewhere.
    """
    changes = _installer(project, choose=True).install(names, tools, dry_run)
    answer = extend(InstallAnswer, changes, service=_install_service() if service and not dry_run else None)
    show(answer, as_json, _print_installed)
    return _code(answer)


@hooks.command()
@agent_option
@project_option
@dry_run_option
@json_option
def uninstall(names: tuple[str, ...], project: bool, dry_run: bool, as_json: bool) -> int:
    """Remove the hooks that install added.

    A file that was not edited since is restored byte for byte; otherwise only Holdfast's entries are removed.
    """
    answer = _installer(project).uninstall(names, dry_run)
    show(answer, as_json, _print_uninstalled)
    return _code(answer)


@hooks.command()
@agent_option
@project_option
@json_option
def status(names: tuple[str, ...], project: bool, as_json: bool) -> None:
    """Show for each agent CLI whether its hooks are installed, trusted and enabled, and when it last sent an event."""
    latest = last_events()
    agents = [
        extend(AgentAnswer, agent, last_event_at=None if latest is None else latest.get(agent.agent))
        for agent in _installer(project).status(names).agents
    ]
    show(StatusAnswer(agents, daemon=latest is not None), as_json, _print_status)


def last_events() -> dict[str, str] | None:
    """The time of each agent's last accepted event, or None if no daemon can be reached."""
    try:
        page = find_client(ANSWER_S).get("/api/events", {"source": "hook", "limit": EVENTS_MAX})
    except (HoldfastError, OSError):
        return None
    latest: dict[str, str] = {}
    for event in page["items"]:
        latest.setdefault(str(event["properties"].get("agent")), event["accepted_at"])
    return latest


def _installer(project: bool, choose: bool = False) -> Installer:
    """`choose`: run a trial to decide which receiver works here. Only needed before writing it into a config file."""
    from dataclasses import replace

    from holdfast.agents.install.environment import fastest_receiver, this_environment
    from holdfast.agents.install.installer import Installer

    environment = this_environment()
    return Installer(replace(environment, program=fastest_receiver()) if choose else environment, find_home(), project)


def _install_service() -> InstalledService:
    from holdfast.surfaces.cli.service import install_service

    return install_service()


def _code(changes: HookChanges) -> int:
    return 1 if any(item.error for item in changes.agents) else 0


def _print_installed(answer: InstallAnswer) -> None:
    items = answer.agents
    if all(item.result == "not found" for item in items):
        echo(f"No agent CLI found; looked for {', '.join(item.agent for item in items)}.")
        example = f"holdfast hooks install --agent {items[0].agent}"
        echo(f"To install hooks for one that is not here yet, name it: {example}")
        return
    _print_changes(answer, "installed")
    for item in items:
        if item.result == "unchanged":
            echo(f"{item.agent}: already installed")
    if answer.dry_run:
        return
    if answer.service is not None:
        from holdfast.surfaces.cli.service import print_service

        print_service(answer.service)
    else:
        echo("Next: holdfast service install   (run the daemon now and after a reboot; or run it here: holdfast up)")
    echo("Then: holdfast hooks status")


def _print_uninstalled(answer: HookChanges) -> None:
    _print_changes(answer, "removed")
    if all(item.result == "unchanged" for item in answer.agents):
        echo("No hooks of Holdfast were installed.")


def _print_changes(answer: HookChanges, done: str) -> None:
    for item in answer.agents:
        name = item.agent
        for file in item.files:
            for line in file.diff.splitlines():
                echo(visible(line))
            kept = f" (backup: {file.copy})" if file.copy else ""
            echo(visible(f"{name}: {'would change' if answer.dry_run else done}: {file.path}{kept}"))
        if item.error:
            echo(visible(f"{name}: {item.result}: {item.error}"))
        for note in item.notes:
            echo(visible(f"{name}: {note}"))
    if answer.dry_run:
        echo("Nothing was changed (--dry-run).")


def _print_status(answer: StatusAnswer) -> None:
    rows = []
    for item in answer.agents:
        at = item.last_event_at
        last_event = ago(at, time.time()) if at else ("none recently" if answer.daemon else "unknown")
        path = None if item.state in ("not found", "not installed") else item.path
        rows.append({"agent": item.agent, "state": item.state, "last_event": last_event, "path": path})
    show_table(rows, COLUMNS)
    for item in answer.agents:
        if item.detail:
            echo(visible(f"{item.agent}: {item.detail}"))
    if not answer.daemon:
        echo("No daemon answers, so the time of the last event is unknown; start one with: holdfast up")

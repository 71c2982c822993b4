"""`holdfast hooks`: install, remove and check the hooks of agent CLIs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from holdfast.agents.install.answers import AgentChange, AgentStatus, HookChanges, InstalledService
from holdfast.agents.registry import agent_names
from holdfast.domain.errors import HoldfastError
from holdfast.home import find_home
from holdfast.operations.answers.fields import extend
from holdfast.operations.elapsed import ago
from holdfast.surfaces.cli.client import find_client
from holdfast.surfaces.cli.options import Group, json_option
from holdfast.surfaces.cli.output import echo, echo_wrapped, plural, show, visible
from holdfast.surfaces.cli.table import show_table

if TYPE_CHECKING:
    from holdfast.agents.install.installer import Installer

EVENTS_MAX = 100  # how many recent events are searched for the last one of each agent
ANSWER_S = 5.0
COLUMNS = ("agent", "state", "last_event", "path")

agent_option = click.option(
    "--agent", "names", type=click.Choice(agent_names()), multiple=True, help="Only this agent CLI. Repeatable."
)
project_option = click.option("--project", is_flag=True, help="Use the settings of the project in this folder.")
diff_option = click.option("--diff", is_flag=True, help="Also show the changes of each file, line by line.")
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
@diff_option
@json_option
def install(
    names: tuple[str, ...], tools: bool | None, project: bool, service: bool, dry_run: bool, diff: bool, as_json: bool
) -> int:
    """Add hooks to the agent CLIs found on this machine. Other hooks and comments are kept.

    Safe to repeat; repeat it after Holdfast was moved or reinstalled elsewhere.
    """
    changes = _installer(project, choose=True).install(names, tools, dry_run)
    answer = extend(InstallAnswer, changes, service=_install_service() if service and not dry_run else None)
    events = {one.agent: one.events for one in _installer(project).status(names).agents}
    show(answer, as_json, lambda answer: _print_installed(answer, events, diff))
    return _code(answer)


@hooks.command()
@agent_option
@project_option
@dry_run_option
@diff_option
@json_option
def uninstall(names: tuple[str, ...], project: bool, dry_run: bool, diff: bool, as_json: bool) -> int:
    """Remove the hooks that install added.

    A file that was not edited since is restored byte for byte; otherwise only Holdfast's entries are removed.
    """
    answer = _installer(project).uninstall(names, dry_run)
    show(answer, as_json, lambda answer: _print_uninstalled(answer, diff))
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


def _print_installed(answer: InstallAnswer, events: Mapping[str, list[str]], diff: bool) -> None:
    items = [item for item in answer.agents if item.result != "not found"]
    if not items:
        echo(f"No agent CLI found; looked for {', '.join(item.agent for item in answer.agents)}.")
        example = f"holdfast hooks install --agent {answer.agents[0].agent}"
        echo(f"To install hooks for one that is not here yet, name it: {example}")
        return
    for item in items:
        done = {"changed": "would be installed" if answer.dry_run else "installed", "unchanged": "already installed"}
        names = events.get(item.agent, [])
        count = f", {plural(len(names), 'event')}" if names and not item.error and not answer.dry_run else ""
        echo(f"{item.agent}: {done.get(item.result, item.result)}{count}")
        if count and item.files:
            echo_wrapped(visible(", ".join(names)), "  events  ")
        print_files(item, diff)
    if answer.dry_run:
        echo("Nothing was changed (--dry-run).")
        return
    if answer.service is not None:
        from holdfast.surfaces.cli.service import print_service

        print_service(answer.service)
    _print_remaining(answer)


def _print_remaining(answer: InstallAnswer) -> None:
    """What the user must still do comes last, where it is seen."""
    from holdfast.surfaces.cli.service import is_answering

    notes = [f"{item.agent}: {note}" for item in answer.agents for note in item.notes]
    if answer.service is None and not is_answering():
        notes.append("start the daemon: holdfast service install (now and after a reboot), or here: holdfast up")
    if notes:
        echo("\nStill to do:")
        for note in notes:
            echo_wrapped(visible(note), "  - ")
    echo("Check with: holdfast hooks status")


def _print_uninstalled(answer: HookChanges, diff: bool) -> None:
    print_changes(answer, "removed", diff)
    if all(item.result == "unchanged" for item in answer.agents):
        echo("No hooks of Holdfast were installed.")


def print_changes(answer: HookChanges, done: str, diff: bool = True) -> None:
    for item in answer.agents:
        if item.files or item.error:
            echo(f"{item.agent}: {item.result if item.error else 'would change' if answer.dry_run else done}")
        print_files(item, diff)
        for note in item.notes:
            echo_wrapped(visible(note), f"{item.agent}: ")
    if answer.dry_run:
        echo("Nothing was changed (--dry-run).")


def print_files(item: AgentChange, diff: bool) -> None:
    """The files of one CLI: path, backup, and with `diff` what changes in them."""
    if item.error:
        echo_wrapped(visible(item.error), "  error   ")
    for file in item.files:
        echo(visible(f"  file    {file.path}"))
        if file.copy:
            echo(visible(f"  backup  {file.copy}"))
        for line in file.diff.splitlines() if diff else ():
            echo(visible(f"    {line}"))


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
            echo_wrapped(visible(item.detail), f"{item.agent}: ")
    if not answer.daemon:
        echo_wrapped("No daemon answers, so the time of the last event is unknown; start one with: holdfast up")

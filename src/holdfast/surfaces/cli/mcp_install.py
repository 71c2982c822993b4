"""`holdfast mcp install` and `uninstall`: wire the MCP server into agent CLIs."""

from __future__ import annotations

from dataclasses import dataclass

import click

from holdfast.agents.install.answers import HookChanges
from holdfast.agents.install.environment import this_environment
from holdfast.agents.install.mcp_installer import McpInstaller, mcp_agent_names
from holdfast.domain.scopes import parse_scopes
from holdfast.home import find_home
from holdfast.operations.answers.fields import extend
from holdfast.surfaces.cli.hooks import dry_run_option, print_changes, project_option
from holdfast.surfaces.cli.options import Command, json_option
from holdfast.surfaces.cli.output import echo, show

mcp_agent_option = click.option(
    "--agent", "names", type=click.Choice(mcp_agent_names()), multiple=True, help="Only this agent CLI. Repeatable."
)


@dataclass(frozen=True, slots=True)
class McpChanges(HookChanges):
    """What an installation changed. `scope`: the scopes of the tokens."""

    scope: str


@click.command(cls=Command)
@mcp_agent_option
@click.option(
    "--allow", metavar="SCOPES", default="", help="Scopes besides read: operate, message; several with commas."
)
@project_option
@dry_run_option
@json_option
def install(names: tuple[str, ...], allow: str, project: bool, dry_run: bool, as_json: bool) -> int:
    """Add the MCP server to the agent CLIs found on this machine.

    Each gets a token of its own with scope read. Safe to repeat; repeat it to change the scopes.
    """
    from holdfast.operations import agent_tokens

    scope = ",".join(parse_scopes(f"read,{allow}" if allow else "read"))
    changes = _installer(project).install(names, dry_run=dry_run)
    if not dry_run:
        for item in changes.agents:
            if item.result in ("changed", "unchanged"):
                agent_tokens.ensure_token(find_home(), item.agent, scope)
    show(extend(McpChanges, changes, scope=scope), as_json, _print_installed)
    return _code(changes)


@click.command(cls=Command)
@mcp_agent_option
@project_option
@dry_run_option
@json_option
def uninstall(names: tuple[str, ...], project: bool, dry_run: bool, as_json: bool) -> int:
    """Remove the MCP server that install added, and revoke its tokens.

    A file that was not edited since is restored byte for byte; otherwise only Holdfast's entry is removed.
    """
    from holdfast.operations import agent_tokens

    changes = _installer(project).uninstall(names, dry_run)
    if not dry_run:
        for item in changes.agents:
            if item.error is None:
                agent_tokens.drop_token(find_home(), item.agent)
    show(changes, as_json, _print_uninstalled)
    return _code(changes)


def _installer(project: bool) -> McpInstaller:
    return McpInstaller(this_environment(), find_home(), project)


def _code(changes: HookChanges) -> int:
    return 1 if any(item.error for item in changes.agents) else 0


def _print_installed(answer: McpChanges) -> None:
    items = answer.agents
    if all(item.result == "not found" for item in items):
        echo(f"No agent CLI found; looked for {', '.join(item.agent for item in items)}.")
        return
    print_changes(answer, "installed")
    for item in items:
        if item.result == "unchanged":
            echo(f"{item.agent}: already installed")
    if not answer.dry_run:
        echo(f"Scopes: {answer.scope}.")


def _print_uninstalled(answer: HookChanges) -> None:
    print_changes(answer, "removed")
    if all(item.result == "unchanged" for item in answer.agents):
        echo("The MCP server was not installed.")

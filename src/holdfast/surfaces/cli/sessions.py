"""`holdfast sessions`: list and close agent sessions."""

from __future__ import annotations

import click

from holdfast.surfaces.cli.client import find_client, part
from holdfast.surfaces.cli.options import Group, json_option, page_options
from holdfast.surfaces.cli.output import show, show_fields, show_page

COLUMNS = ("id", "state", "title", "last_prompt", "last_answer", "cwd", "updated_at")


@click.group(cls=Group, invoke_without_command=True)
@click.pass_context
def sessions(context: click.Context) -> None:
    """List and close agent sessions."""
    if context.invoked_subcommand is None:
        context.invoke(list_sessions)


@sessions.command("list")
@click.option("--agent", help="Only sessions of this agent CLI.")
@click.option("--state", help="Only this state: initializing, working, idle, waiting, failed, ended or closed.")
@click.option("--native-id", help="Only the session with this id of the agent.")
@click.option("--cwd", help="Only sessions in this folder.")
@page_options
@json_option
def list_sessions(as_json: bool, **query: object) -> None:
    """List sessions, most recently updated first."""
    show(find_client().get("/api/sessions", query), as_json, lambda page: show_page(page, COLUMNS))


@sessions.command("show")
@click.argument("id")
@json_option
def show_session(id: str, as_json: bool) -> None:
    """Show one session, by its Holdfast id or the agent's own id."""
    show(find_client().get(f"/api/sessions/{part(id)}"), as_json, show_fields)


@sessions.command("close")
@click.argument("id")
@json_option
def close_session(id: str, as_json: bool) -> None:
    """Mark a session as closed. The agent itself is not stopped."""
    show(find_client().post(f"/api/sessions/{part(id)}/close"), as_json, show_fields)

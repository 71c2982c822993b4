"""`holdfast sessions`: list, show, name, bind, attach, close and rebuild agent sessions."""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from holdfast.domain.json_value import KnownJson
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.client import Client, part
from holdfast.surfaces.cli.client_options import with_client
from holdfast.surfaces.cli.fields import show_field
from holdfast.surfaces.cli.options import Group, json_option, page_options
from holdfast.surfaces.cli.output import echo, plural, show, show_lines, visible, warn
from holdfast.surfaces.cli.table import page_lines
from holdfast.surfaces.cli.text_width import cut, wrap
from holdfast.surfaces.cli.watch import watch_answer

COLUMNS = ("id", "name", "state", "title", "last_prompt", "last_answer", "cwd", "updated_at")
SPARE = ("last_prompt", "cwd", "last_answer")
WIDTH = 80
LINES_MAX = 4
REBUILD_MAX = 100


@click.group(cls=Group, invoke_without_command=True)
@click.option("--watch", is_flag=True, help="Show the list again whenever it changes, until Ctrl-C.")
@with_client
@json_option
@click.pass_context
def sessions(context: click.Context, client: Client, watch: bool, as_json: bool) -> None:
    """List, show, name and close agent sessions."""
    if context.invoked_subcommand is None:
        _list(client, {"limit": 50}, watch, as_json)
    elif watch or as_json or context.params["store"] or context.params["app"]:
        raise click.UsageError(f"write the options after the command {context.invoked_subcommand}")


@sessions.command("list")
@click.option("--agent", help="Only sessions of this agent CLI.")
@click.option("--state", help="Only this state: initializing, working, idle, waiting, failed, ended or closed.")
@click.option("--native-id", help="Only the session with this id of the agent.")
@click.option("--cwd", help="Only sessions in this folder.")
@page_options
@click.option("--watch", is_flag=True, help="Show the list again whenever it changes, until Ctrl-C.")
@with_client
@json_option
def list_sessions(client: Client, watch: bool, as_json: bool, **query: object) -> None:
    """List sessions, most recently updated first."""
    _list(client, query, watch, as_json)


def _list(client: Client, query: Mapping[str, object], watch: bool, as_json: bool) -> None:
    if watch:
        watch_answer(client, "/api/sessions", query, _lines, as_json, {"type": "session.*"})
    else:
        show(client.get("/api/sessions", query), as_json, lambda page: show_lines(_lines(page)))


def _lines(page: KnownJson) -> list[str]:
    return page_lines(page, COLUMNS, SPARE)


@sessions.command("show")
@click.argument("id")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Maximum number of entries.")
@with_client
@json_option
def show_session(client: Client, id: str, limit: int, as_json: bool) -> None:
    """Show one session with its messages, prompts, tools and answers on one time line."""
    show(client.get(f"/api/sessions/{part(id)}", {"limit": limit}), as_json, _show_conversation)


@sessions.command("name")
@click.argument("id")
@click.argument("name")
@with_client
@json_option
def name_session(client: Client, id: str, name: str, as_json: bool) -> None:
    """Name a session, so that messages can be sent to it by that name."""
    answer = client.post(f"/api/sessions/{part(id)}/name", {"name": name})
    named = f"is named {answer['name']}" if answer["name"] else "has no name"
    show(answer, as_json, lambda _: echo(visible(f"Session {answer['id']} {named}.")))


@sessions.command("bind")
@click.argument("id")
@click.option("--origin", required=True, help="Platform of the chat, such as telegram.")
@click.option("--channel", required=True, help="Id of the chat on that platform.")
@click.option("--unbind", is_flag=True, help="End the binding instead.")
@with_client
@json_option
def bind_session(client: Client, id: str, origin: str, channel: str, unbind: bool, as_json: bool) -> None:
    """Bind a chat to a session, so that messages from it go there."""
    body = {"origin": origin, "channel": channel, "bound": not unbind}
    answer = client.post(f"/api/sessions/{part(id)}/bind", body)
    verb = "no longer bound" if unbind else "bound"
    show(answer, as_json, lambda _: echo(visible(f"{origin}:{channel} is {verb} to session {answer['id']}.")))


@sessions.command("attach")
@click.argument("id")
@click.argument("pane", required=False)
@click.option("--tmux", metavar="SOCKET", help="Socket of the tmux server. Default: the one of this terminal.")
@with_client
@json_option
def attach_session(client: Client, id: str, pane: str | None, tmux: str | None, as_json: bool) -> None:
    """Name the tmux pane in which the agent of a session runs. Default: this pane."""
    pane, tmux = pane or os.environ.get("TMUX_PANE"), tmux or os.environ.get("TMUX")
    if not pane or not tmux:
        raise click.UsageError("this terminal is not in tmux: give PANE (such as %3) and --tmux SOCKET")
    answer = client.post(f"/api/sessions/{part(id)}/attach", {"pane": pane, "tmux": tmux})
    show(answer, as_json, lambda _: echo(visible(f"Session {answer['id']} is attached to pane {answer['pane']}.")))


@sessions.command("close")
@click.argument("id")
@with_client
@json_option
def close_session(client: Client, id: str, as_json: bool) -> None:
    """Mark a session as closed. The agent itself is not stopped; messages that wait for it expire."""
    answer = client.post(f"/api/sessions/{part(id)}/close")
    show(answer, as_json, lambda _: echo(visible(f"Session {answer['id']} closed.")))


@sessions.command("rebuild")
@click.argument("ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Rebuild all sessions.")
@with_client
@json_option
def rebuild_sessions(client: Client, ids: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Rebuild sessions from their stored events, for example after their rows were damaged.

    Each session is rebuilt in its own lane, between its hooks. The event session.rebuilt of a session says what was
    different. A session whose first events are neither stored nor archived keeps its row.
    """
    if bool(ids) == everything:
        raise click.UsageError("give session ids, or --all")
    answer = {"requested": 0, "rebuilt": 0, "waiting": 0}
    bodies: list[KnownJson] = [{"ids": ids[at : at + REBUILD_MAX]} for at in range(0, len(ids), REBUILD_MAX)]
    bodies = bodies or [{"all": True}]
    while bodies:
        part = client.post("/api/sessions/rebuild", bodies.pop(0))
        answer = {name: count + part[name] for name, count in answer.items()}
        if part["next"] is not None:
            warn(f"{answer['requested']:,} sessions, next is after {visible(part['next'])}")
            bodies.append({"all": True, "after": part["next"]})
    show(answer, as_json, _print_rebuilt)


def _print_rebuilt(answer: KnownJson) -> None:
    echo(f"{plural(answer['rebuilt'], 'session')} rebuilt; see: holdfast events list --type session.rebuilt")
    if answer["waiting"]:
        echo(f"{plural(answer['waiting'], 'session')} will be rebuilt when earlier events of the session are handled.")


def _show_conversation(answer: KnownJson) -> None:
    """The session in a few lines, then one block for each entry, within the terminal."""
    hidden = ("timeline", "facts", "last_prompt", "last_answer", "last_message", "stream", "created_at")
    facts = {name: value for name, value in answer.items() if name not in hidden and value not in (None, [])}
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        show_field(name, value, width)
    columns = terminal.width() if terminal.is_terminal() else WIDTH
    for entry in answer["timeline"]:
        echo()
        about = f" {entry['origin']}, {entry['status']}" if entry["kind"] == "message" else ""
        echo(cut(f"{entry['at'][:19].replace('T', ' ')}  {entry['kind']}{visible(about)}", columns))
        for line in _wrapped(entry["text"], columns - 2):
            echo(f"  {line}")


def _wrapped(text: str, width: int) -> list[str]:
    """At most a few lines."""
    lines = [part for line in text.splitlines() if line.strip() for part in wrap(visible(line), width, divide=True)]
    return lines if len(lines) <= LINES_MAX else [*lines[: LINES_MAX - 1], "…"]

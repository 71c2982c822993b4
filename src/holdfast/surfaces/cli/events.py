"""`holdfast events`: list events, and route unmatched events again."""

from __future__ import annotations

import click

from holdfast.domain.json_value import KnownJson
from holdfast.surfaces.cli.client import Client, part
from holdfast.surfaces.cli.client_options import with_client
from holdfast.surfaces.cli.fields import show_fields
from holdfast.surfaces.cli.options import Group, json_option, page_options
from holdfast.surfaces.cli.output import echo, plural, show
from holdfast.surfaces.cli.table import show_page

COLUMNS = ("id", "type", "source", "stream", "seq", "accepted_at")
DELIVERIES = ("id", "address", "contract_id", "state", "reason", "attempts", "due_at", "last_error")


@click.group(cls=Group)
def events() -> None:
    """List events, and route unmatched events again."""


@events.command("list")
@click.option("--source", help="Only events from this source.")
@click.option("--type", help="Only events of this type.")
@click.option("--stream", help="Only events of this stream.")
@click.option("--search", help="Only events with these words in id, source, type, stream or properties (name=value).")
@click.option("--unmatched", is_flag=True, help="Only events that no contract matched.")
@page_options
@click.option("--follow", is_flag=True, help="List the oldest first, then each new event as it comes, until Ctrl-C.")
@with_client
@json_option
def list_events(client: Client, follow: bool, as_json: bool, **query: object) -> None:
    """List events, newest first."""
    if not follow:
        show(client.get("/api/events", query), as_json, lambda page: show_page(page, COLUMNS, ("source", "seq")))
        return
    if query["unmatched"] or query["after"] or query["search"]:
        raise click.UsageError("--follow cannot be combined with --unmatched, --search or --after")
    from holdfast.surfaces.cli.event_list import follow_list

    follow_list(client, query, COLUMNS, as_json)


@events.command("show")
@click.argument("id")
@with_client
@json_option
def show_event(client: Client, id: str, as_json: bool) -> None:
    """Show one event and its deliveries."""
    show(client.get(f"/api/events/{part(id)}"), as_json, _print_event)


@events.command("route")
@click.argument("ids", nargs=-1, required=True)
@with_client
@json_option
def route_events(client: Client, ids: tuple[str, ...], as_json: bool) -> None:
    """Route unmatched events again, against the current contracts."""
    answer = client.post("/api/events/route", {"ids": list(ids)})
    show(answer, as_json, lambda routed: echo(f"{routed['routed']} of {plural(len(ids), 'event')} routed again."))


def _print_event(event: KnownJson) -> None:
    show_fields(event, DELIVERIES, spare=("due_at", "reason"))

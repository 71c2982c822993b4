"""`holdfast events`: list events, and route unmatched events again."""

from __future__ import annotations

import click

from holdfast.surfaces.cli.client import find_client, part
from holdfast.surfaces.cli.options import Group, json_option, page_options
from holdfast.surfaces.cli.output import echo, plural, show, show_fields, show_page

COLUMNS = ("id", "type", "source", "stream", "seq", "accepted_at")
DELIVERIES = ("id", "address", "contract_id", "state", "reason", "attempts", "due_at", "last_error")


@click.group(cls=Group)
def events() -> None:
    """List events, and route unmatched events again."""


@events.command("list")
@click.option("--source", help="Only events from this source.")
@click.option("--type", help="Only events of this type.")
@click.option("--stream", help="Only events of this stream.")
@click.option("--unmatched", is_flag=True, help="Only events that no contract matched.")
@page_options
@json_option
def list_events(as_json: bool, **query: object) -> None:
    """List events, newest first."""
    show(find_client().get("/api/events", query), as_json, lambda page: show_page(page, COLUMNS))


@events.command("show")
@click.argument("id")
@json_option
def show_event(id: str, as_json: bool) -> None:
    """Show one event and its deliveries."""
    show(find_client().get(f"/api/events/{part(id)}"), as_json, lambda event: show_fields(event, DELIVERIES))


@events.command("route")
@click.argument("ids", nargs=-1, required=True)
@json_option
def route_events(ids: tuple[str, ...], as_json: bool) -> None:
    """Route unmatched events again, against the current contracts."""
    answer = find_client().post("/api/events/route", {"ids": list(ids)})
    show(answer, as_json, lambda routed: echo(f"{routed['routed']} of {plural(len(ids), 'event')} routed again."))

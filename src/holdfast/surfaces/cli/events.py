"""`holdfast events`: look at events, and route again those that nobody wanted."""

from __future__ import annotations

from typing import Any

import click

from holdfast.surfaces.cli.client import find_client, part
from holdfast.surfaces.cli.options import NearGroup, json_option, page_options
from holdfast.surfaces.cli.output import say, show, show_fields, show_page

COLUMNS = ("id", "type", "source", "stream", "seq", "accepted_at")
DELIVERIES = ("id", "address", "contract_id", "state", "reason", "attempts", "due_at", "last_error")


@click.group(cls=NearGroup)
def events() -> None:
    """Look at events, and route again those nobody wanted."""


@events.command("list")
@click.option("--source", help="Only from this source.")
@click.option("--type", help="Only of this type.")
@click.option("--stream", help="Only of this stream.")
@click.option("--unmatched", is_flag=True, help="Only those that no contract wanted.")
@page_options
@json_option
def list_events(as_json: bool, **query: Any) -> None:
    """List events, newest first."""
    show(find_client().get("/api/events", query), as_json, lambda page: show_page(page, COLUMNS))


@events.command("show")
@click.argument("id")
@json_option
def show_event(id: str, as_json: bool) -> None:
    """Show one event and what became of it at every address."""
    show(find_client().get(f"/api/events/{part(id)}"), as_json, lambda event: show_fields(event, DELIVERIES))


@events.command("route")
@click.argument("ids", nargs=-1, required=True)
@json_option
def route_events(ids: tuple[str, ...], as_json: bool) -> None:
    """Offer events that matched nothing to the contracts there are now."""
    answer = find_client().post("/api/events/route", {"ids": list(ids)})
    show(answer, as_json, lambda found: say(f"{found['routed']} of {len(ids)} are routed again"))

"""`holdfast deliveries`: list, retry and cancel deliveries."""

from __future__ import annotations

import click

from holdfast.surfaces.cli.client import find_client
from holdfast.surfaces.cli.options import Group, filter_options, json_option, page_options
from holdfast.surfaces.cli.output import show, show_fields, show_page

COLUMNS = ("id", "event_type", "address", "state", "reason", "attempts", "due_at", "last_error")

Id = click.IntRange(0, 2**62)


@click.group(cls=Group)
def deliveries() -> None:
    """List, retry and cancel deliveries."""


@deliveries.command("list")
@filter_options(state=True)
@page_options
@json_option
def list_deliveries(as_json: bool, **query: object) -> None:
    """List deliveries, newest first."""
    show(find_client().get("/api/deliveries", query), as_json, lambda page: show_page(page, COLUMNS))


@deliveries.command("show")
@click.argument("id", type=Id)
@json_option
def show_delivery(id: int, as_json: bool) -> None:
    """Show one delivery and its attempts."""
    show(find_client().get(f"/api/deliveries/{id}"), as_json, show_fields)


@deliveries.command("retry")
@click.argument("id", type=Id)
@json_option
def retry_delivery(id: int, as_json: bool) -> None:
    """Make a pending delivery due now, or requeue one that has ended."""
    show(find_client().post(f"/api/deliveries/{id}/retry"), as_json, show_fields)


@deliveries.command("cancel")
@click.argument("id", type=Id)
@json_option
def cancel_delivery(id: int, as_json: bool) -> None:
    """Cancel a pending delivery. It ends as dropped (cancelled)."""
    show(find_client().post(f"/api/deliveries/{id}/cancel"), as_json, show_fields)

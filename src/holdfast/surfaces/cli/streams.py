"""`holdfast streams`: list streams and their events."""

from __future__ import annotations

import click

from holdfast.surfaces.cli.client import find_client, part
from holdfast.surfaces.cli.options import Group, json_option, page_options
from holdfast.surfaces.cli.output import show, show_fields, show_page


@click.group(cls=Group)
def streams() -> None:
    """List streams and their events."""


@streams.command("list")
@page_options
@json_option
def list_streams(as_json: bool, **query: object) -> None:
    """List streams, ordered by id."""
    show(
        find_client().get("/api/streams", query),
        as_json,
        lambda page: show_page(page, ("id", "head", "created_at", "closed_at")),
    )


@streams.command("show")
@click.argument("id")
@json_option
def show_stream(id: str, as_json: bool) -> None:
    """Show one stream."""
    show(find_client().get(f"/api/streams/{part(id)}"), as_json, show_fields)


@streams.command("events")
@click.argument("id")
@click.option("--after", metavar="SEQ", type=click.IntRange(0), default=0, help="Only events after this seq.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Maximum number of items.")
@json_option
def stream_events(id: str, after: int, limit: int, as_json: bool) -> None:
    """List the events of a stream, ordered by seq."""
    show(
        find_client().get(f"/api/streams/{part(id)}/events", {"after": after, "limit": limit}),
        as_json,
        lambda page: show_page(page, ("seq", "id", "type", "source", "accepted_at")),
    )

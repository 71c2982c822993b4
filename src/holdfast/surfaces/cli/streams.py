"""`holdfast streams`: list streams and their events."""

from __future__ import annotations

import click

from holdfast.domain.json_value import KnownJson
from holdfast.surfaces.cli.client import Client, part
from holdfast.surfaces.cli.client_options import with_client
from holdfast.surfaces.cli.fields import show_fields
from holdfast.surfaces.cli.options import Group, json_option, page_options
from holdfast.surfaces.cli.output import show
from holdfast.surfaces.cli.table import show_page, show_table

CURSORS = ("reader", "position", "lag_events", "updated_at", "expired_at", "failures", "error")
ACTIVITY = ("published", "failures", "events_per_second", "latency_p50_ms")
READERS = ("name", "pattern", "lagging_streams", "lag_events", "lag_seconds", "failing_streams", *ACTIVITY, "error")
READERS_SPARE = ("latency_p50_ms", "published", "failing_streams", "pattern", "events_per_second", "lag_seconds")


@click.group(cls=Group)
def streams() -> None:
    """List streams and their events."""


@streams.command("list")
@page_options
@with_client
@json_option
def list_streams(client: Client, as_json: bool, **query: object) -> None:
    """List streams, ordered by id."""
    show(
        client.get("/api/streams", query),
        as_json,
        lambda page: show_page(page, ("id", "head", "created_at", "closed_at")),
    )


@streams.command("show")
@click.argument("id")
@with_client
@json_option
def show_stream(client: Client, id: str, as_json: bool) -> None:
    """Show one stream and its readers."""
    show(client.get(f"/api/streams/{part(id)}"), as_json, lambda stream: show_fields(stream, CURSORS))


@streams.command("readers")
@with_client
@json_option
def list_readers(client: Client, as_json: bool) -> None:
    """List readers of streams, sinks among them, with their lag."""
    show(client.get("/api/readers"), as_json, _print_readers)


def _print_readers(page: KnownJson) -> None:
    rows = [{**reader, **{name: (reader["activity"] or {}).get(name) for name in ACTIVITY}} for reader in page["items"]]
    show_table(rows, READERS, spare=READERS_SPARE)


@streams.command("events")
@click.argument("id")
@click.option("--after", metavar="SEQ", type=click.IntRange(0), help="Only events after this seq.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Maximum number of items.")
@with_client
@json_option
def stream_events(client: Client, id: str, after: int | None, limit: int, as_json: bool) -> None:
    """List the events of a stream, ordered by seq."""
    show(
        client.get(f"/api/streams/{part(id)}/events", {"after": after, "limit": limit}),
        as_json,
        lambda page: show_page(page, ("seq", "id", "type", "source", "accepted_at")),
    )

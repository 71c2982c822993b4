"""`holdfast deliveries`: list, retry and cancel deliveries."""

from __future__ import annotations

import click

from holdfast.domain.json_value import KnownJson
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.client import Client
from holdfast.surfaces.cli.client_options import with_client
from holdfast.surfaces.cli.fields import show_fields
from holdfast.surfaces.cli.options import Group, filter_options, json_option, page_options
from holdfast.surfaces.cli.output import echo, echo_wrapped, show, visible
from holdfast.surfaces.cli.table import show_page

COLUMNS = ("id", "event_type", "address", "state", "reason", "attempts", "due_at", "last_error")
SPARE = ("due_at", "attempts")
ATTEMPTS = ("generation", "attempt", "started_at", "outcome", "status", "duration_ms", "error")

Id = click.IntRange(0, 2**62)


@click.group(cls=Group)
def deliveries() -> None:
    """List, retry and cancel deliveries."""


@deliveries.command("list")
@filter_options(state=True)
@page_options
@with_client
@json_option
def list_deliveries(client: Client, as_json: bool, **query: object) -> None:
    """List deliveries, newest first."""
    show(client.get("/api/deliveries", query), as_json, _print_list)


@deliveries.command("show")
@click.argument("id", type=Id)
@with_client
@json_option
def show_delivery(client: Client, id: int, as_json: bool) -> None:
    """Show one delivery and its attempts."""
    show(client.get(f"/api/deliveries/{id}"), as_json, _print_delivery)


@deliveries.command("retry")
@click.argument("id", type=Id)
@with_client
@json_option
def retry_delivery(client: Client, id: int, as_json: bool) -> None:
    """Make a pending delivery due now, or requeue one that has ended."""
    answer = client.post(f"/api/deliveries/{id}/retry")
    show(answer, as_json, lambda row: echo(f"Delivery {id} is due now{_waits(row)}."))


@deliveries.command("cancel")
@click.argument("id", type=Id)
@with_client
@json_option
def cancel_delivery(client: Client, id: int, as_json: bool) -> None:
    """Cancel a pending delivery. It ends as dropped (cancelled)."""
    answer = client.post(f"/api/deliveries/{id}/cancel")
    show(answer, as_json, lambda _: echo(f"Delivery {id} cancelled."))


def _print_list(page: KnownJson) -> None:
    """A pending delivery has no reason yet; in its place is what it waits for."""
    rows = [{**row, "reason": row["reason"] or row["waits_for"]} for row in page["items"]]
    show_page({**page, "items": rows}, COLUMNS, SPARE)


def _waits(row: KnownJson) -> str:
    return f", but waits for: {row['waits_for']}" if row["waits_for"] else ""


def _print_delivery(row: KnownJson) -> None:
    """The details of an attempt have a column each: the status of a response, and how long it took."""
    history = [{**attempt, **(attempt["detail"] or {})} for attempt in row["history"]]
    columns = ATTEMPTS[1:] if terminal.is_terminal() and row["generation"] == 1 else ATTEMPTS
    show_fields({**row, "history": history}, columns, spare=("duration_ms", "generation"))
    response = next((each["response"] for each in reversed(history) if each.get("response")), None)
    if response:
        echo()
        echo_wrapped(visible(response), "last response  ")

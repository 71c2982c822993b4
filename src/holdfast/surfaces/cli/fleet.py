"""`holdfast fleet`: every component that answers the dead letter verbs, in one table."""

from __future__ import annotations

import click

from holdfast.domain.json_value import KnownJson
from holdfast.operations.elapsed import span
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.client import Client
from holdfast.surfaces.cli.client_options import with_long_timeout
from holdfast.surfaces.cli.options import Command, json_option
from holdfast.surfaces.cli.output import echo_wrapped, show, visible
from holdfast.surfaces.cli.table import show_table

COLUMNS = ("name", "state", "dlq_count", "pending", "in_flight", "oldest_pending_seconds", "backend", "last_error")
FIGURES = ("dlq_count", "pending", "in_flight", "oldest_pending_seconds", "backend")
ATTENTION = 1


@click.command(cls=Command)
@with_long_timeout
@json_option
def fleet(client: Client, as_json: bool) -> int:
    """Show the dead letters and queues of every configured component.

    Exits with 1 if a component needs attention or cannot be reached.
    """
    answer: KnownJson = client.get("/api/fleet")
    show(answer, as_json, _print)
    return 0 if answer["ok"] else ATTENTION


def _print(answer: KnownJson) -> None:
    show_table([_shown(component) for component in answer["components"]], COLUMNS, spare=("backend", "in_flight"))
    for component in answer["components"]:
        for alert in component["alerts"]:
            echo_wrapped(visible(alert), f"{visible(component['name'])}: ")


def _shown(component: KnownJson) -> KnownJson:
    """The figures of a component that cannot be reached are unknown, and are shown as that."""
    if component["state"] != "unknown":
        oldest = component["oldest_pending_seconds"]
        shown = None if oldest is None else span(oldest) if terminal.is_terminal() else oldest
        return {**component, "oldest_pending_seconds": shown}
    return {**component, **dict.fromkeys(FIGURES, "unknown")}

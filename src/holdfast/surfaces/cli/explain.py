"""`holdfast explain`: why an event was or was not delivered."""

from __future__ import annotations

import click

from holdfast.domain.json_value import KnownJson
from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.client import Client, part
from holdfast.surfaces.cli.client_options import with_client
from holdfast.surfaces.cli.options import Command, json_option
from holdfast.surfaces.cli.output import echo, echo_wrapped, show, visible
from holdfast.surfaces.cli.table import show_table

DELIVERIES = ("id", "contract_id", "address", "state", "reason", "attempts", "last_error")
ATTEMPTS = ("delivery", "generation", "attempt", "started_at", "outcome", "error")


@click.command(cls=Command)
@click.argument("event")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Maximum number of items of each kind."
)
@with_client
@json_option
def explain(client: Client, event: str, limit: int, as_json: bool) -> None:
    """Explain which contracts matched an event, and why.

    Also shows every delivery of the event with its attempts and receipts.
    """
    show(client.get(f"/api/events/{part(event)}/explain", {"limit": limit}), as_json, _print)


def _print(answer: KnownJson) -> None:
    event = answer["event"]
    place = "" if event["stream"] == event["id"] else f", number {event['seq']} in {event['stream']}"
    echo_wrapped(visible(f"{event['id']}  {event['type']} from {event['source']}{place}"))
    echo_wrapped(visible(answer["verdict"]))
    if answer["deliveries"]:
        echo("\nDeliveries:")
        show_table(answer["deliveries"], DELIVERIES, spare=("attempts",))
        _print_left_off(answer["deliveries_left_off"], "deliveries")
    attempts = [{**each, "delivery": row["id"]} for row in answer["deliveries"] for each in row["history"]]
    if attempts:
        echo("\nAttempts:")
        show_table(attempts, ATTEMPTS, spare=("generation",))
    if answer["deliveries"]:
        echo("\nReceipts:")
        for row in answer["deliveries"]:
            _print_receipts(row)
    if answer["wanted_now"]:
        echo()
        echo_wrapped(visible(", ".join(answer["wanted_now"])), "Matched by (current contracts): ")
        _print_left_off(answer["wanted_now_left_off"], "contracts")
    if answer["missed"]:
        echo("\nNot matched by (closest first):")
        for missed in answer["missed"]:
            echo(f"  {visible(missed['contract_id'])}")
            for why in missed["why"]:
                echo_wrapped(visible(why), "    ")
            if missed["failed"] > len(missed["why"]):
                echo(f"    (and {missed['failed'] - len(missed['why'])} more)")
        _print_left_off(answer["missed_left_off"], "contracts")


def _print_receipts(delivery: KnownJson) -> None:
    """Hashes are printed in full, for comparison with exported receipts."""
    if not delivery["receipts"]:
        echo(f"  delivery {delivery['id']}: no receipt yet")
    for receipt in delivery["receipts"]:
        ended = f"{receipt['state']} ({receipt['reason']})" if receipt["reason"] else receipt["state"]
        at = terminal.for_people("at", receipt["at"])
        when = f"{ended} {at}" if terminal.is_terminal() else f"{ended} at {at}"
        echo(visible(f"  delivery {delivery['id']}: {when} by {receipt['actor']}, {receipt['chain']} {receipt['seq']}"))
        echo(visible(f"    {receipt['h_self']}"))


def _print_left_off(left_off: int, noun: str) -> None:
    if left_off:
        echo(f"  ({left_off:,} more {noun}; see --limit)")

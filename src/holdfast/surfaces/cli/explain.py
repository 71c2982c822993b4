"""`holdfast explain`: why one event went where it went."""

from __future__ import annotations

from typing import Any

import click

from holdfast.surfaces.cli.client import find_client, part
from holdfast.surfaces.cli.options import json_option
from holdfast.surfaces.cli.output import say, show, show_table, visible

DELIVERIES = ("id", "contract_id", "address", "state", "reason", "attempts", "last_error")
ATTEMPTS = ("delivery", "generation", "attempt", "started_at", "outcome", "error")


@click.command()
@click.argument("event")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most so many of each kind."
)
@json_option
def explain(event: str, limit: int, as_json: bool) -> None:
    """Say why an event went where it went, and why not elsewhere."""
    show(find_client().get(f"/api/events/{part(event)}/explain", {"limit": limit}), as_json, _say)


def _say(answer: dict[str, Any]) -> None:
    event = answer["event"]
    say(visible(f"{event['id']}  {event['type']} from {event['source']}, {event['seq']} in {event['stream']}"))
    say(visible(answer["verdict"]))
    if answer["deliveries"]:
        say("\ndeliveries:")
        show_table(answer["deliveries"], DELIVERIES)
        _more(answer["deliveries_left_off"], "deliveries")
    attempts = [{**each, "delivery": row["id"]} for row in answer["deliveries"] for each in row["history"]]
    if attempts:
        say("\nattempts:")
        show_table(attempts, ATTEMPTS)
    if answer["deliveries"]:
        say("\nreceipts:")
        for row in answer["deliveries"]:
            _say_receipts(row)
    if answer["wanted_now"]:
        say(f"\nwanted now by: {visible(', '.join(answer['wanted_now']))}")
        _more(answer["wanted_now_left_off"], "contracts")
    if answer["missed"]:
        say("\nmissed by, the nearest first:")
        for missed in answer["missed"]:
            say(f"  {visible(missed['contract_id'])}")
            for why in missed["why"]:
                say(f"    {visible(why)}")
            if missed["failed"] > len(missed["why"]):
                say(f"    (and {missed['failed'] - len(missed['why'])} more)")
        _more(answer["missed_left_off"], "contracts")


def _say_receipts(delivery: dict[str, Any]) -> None:
    """Whole hashes: who looks for a receipt wants to compare it."""
    if not delivery["receipts"]:
        say(f"  delivery {delivery['id']}: none yet")
    for told in delivery["receipts"]:
        ended = f"{told['state']} ({told['reason']})" if told["reason"] else told["state"]
        say(visible(f"  delivery {delivery['id']}: {ended} at {told['at']} by {told['actor']}"))
        say(visible(f"    {told['chain']} {told['seq']}, {told['h_self']}"))


def _more(left_off: int, noun: str) -> None:
    if left_off:
        say(f"  ({left_off:,} more {noun}; see --limit)")
